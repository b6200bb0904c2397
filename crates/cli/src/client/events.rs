//! Reads server-sent events from a response as they arrive.

use elevo_api::event_stream::{Event, InvalidStream, MAX_EVENT_SIZE, Parser};
use reqwest::Response;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use crate::client::error::{ClientError, Result};
use crate::client::http::{Client, SILENCE};

/// The events of a response.
#[derive(Debug)]
pub(crate) struct Events {
    answer: Response,
    client: Client,
    parser: Parser,
}

/// Decodes the data of an event.
pub(crate) fn decode<T: DeserializeOwned>(event: &Event) -> Result<T> {
    serde_json::from_str(&event.data).map_err(ClientError::Answer)
}

impl Events {
    pub(crate) fn new(client: &Client, answer: Response) -> Self {
        Self {
            answer,
            client: client.clone(),
            parser: Parser::default(),
        }
    }

    /// Returns the next event, or `None` at the end of the response.
    pub(crate) async fn next(&mut self) -> Result<Option<Event>> {
        loop {
            if let Some(event) = self.parser.next_event().map_err(failure)? {
                return Ok(Some(event));
            }
            let Ok(piece) = timeout(SILENCE, self.answer.chunk()).await else {
                let message = "the server was silent for too long".into();
                return Err(ClientError::Told { message });
            };
            match piece.map_err(|error| self.client.lost(error))? {
                Some(piece) => self.parser.add(&piece).map_err(failure)?,
                None => return Ok(None),
            }
        }
    }
}

fn failure(invalid: InvalidStream) -> ClientError {
    match invalid {
        InvalidStream::TooLarge => ClientError::TooLarge(MAX_EVENT_SIZE),
        InvalidStream::NotUtf8 => ClientError::Stream("an event that is not valid UTF-8"),
    }
}
