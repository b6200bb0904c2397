//! Retries after a lost connection, for requests that are safe to repeat.

use std::time::{Duration, Instant};

use elevo_core::ErrorCode;
use reqwest::{Method, RequestBuilder};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::error::{ClientError, Result};
use crate::client::http::Client;

/// How long to retry after a connection was lost.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

const FIRST_PAUSE: Duration = Duration::from_millis(100);

const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Pauses between retries: doubled each time, for at most a minute.
#[derive(Debug)]
pub(super) struct BackOff {
    since: Instant,
    pause: Duration,
}

impl BackOff {
    pub(super) fn new() -> Self {
        Self {
            since: Instant::now(),
            pause: FIRST_PAUSE,
        }
    }

    /// Waits before the next retry. Returns the error once a minute has passed.
    pub(super) async fn wait(&mut self, error: ClientError) -> Result<()> {
        if self.since.elapsed() + self.pause > PATIENCE {
            return Err(ClientError::GaveUp(Box::new(error)));
        }
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        Ok(())
    }
}

impl Client {
    /// Like [`Self::done`], but retries for a minute while the server restarts,
    /// as long as it certainly has not executed the request.
    pub(crate) async fn done_patiently(
        &mut self,
        request: impl Fn(&Self) -> RequestBuilder,
    ) -> Result<()> {
        let mut back_off = BackOff::new();
        loop {
            match self.done(request(self)).await {
                Err(error) if error.is_passing() => back_off.wait(error).await?,
                answer => return answer,
            }
            self.look_again();
        }
    }

    /// Creates a resource. If the connection is lost, retries for a minute with
    /// the same idempotency key, so that the server creates only one.
    pub(crate) async fn create<T: DeserializeOwned>(
        &self,
        path: &[&str],
        body: &(impl Serialize + Sync),
    ) -> Result<T> {
        let key = random_name()?;
        self.once(async |client| {
            let request = client.request(Method::POST, path).json(body);
            client.json(request.header("idempotency-key", &key)).await
        })
        .await
    }

    /// Sends a request that the server carries out once, however often it is
    /// sent. If the connection is lost, retries for a minute.
    pub(crate) async fn once<T>(&self, attempt: impl AsyncFn(&Self) -> Result<T>) -> Result<T> {
        let mut client = self.clone();
        let mut back_off = BackOff::new();
        let mut was_sent = false;
        loop {
            let error = match attempt(&client).await {
                Err(error) => error,
                made => return made,
            };
            was_sent |= matches!(error, ClientError::Broken { .. } | ClientError::Told { .. });
            let is_at_work = error.code() == Some(ErrorCode::IdempotencyRunning);
            // If no request was sent, report the error without retries.
            if !was_sent || !(error.is_worth_repeating() || is_at_work) {
                return Err(error);
            }
            back_off.wait(error).await?;
            client.look_again();
        }
    }
}

/// Returns a random name: for an idempotency key, a command or a client.
pub(crate) fn random_name() -> Result<String> {
    let mut random = [0; 16];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
        .map_err(|_| ClientError::Stream("no random numbers"))?;
    Ok(random.iter().map(|byte| format!("{byte:02x}")).collect())
}
