//! A request as its use case sees it.

use crate::app::requests::{AtWork, hash};
use crate::failure::{Failure, Result};
use crate::platform::clock;
use elevo_catalog::{Catalog, RequestRun};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A request as its use case sees it. The default has no `Idempotency-Key` and
/// is never retried.
#[derive(Clone, Debug, Default)]
pub(crate) struct Once(pub(super) Option<Arc<Request>>);

#[derive(Debug)]
pub(super) struct Request {
    pub(super) catalog: Arc<dyn Catalog>,
    pub(super) at_work: Arc<AtWork>,
    pub(super) run: RequestRun,
    /// Random letters.
    pub(super) id: String,
    pub(super) is_again: bool,
    pub(super) note: Mutex<Note>,
}

#[derive(Debug, Default)]
pub(super) struct Note {
    /// The thing that was or is about to be created, as JSON.
    pub(super) made: Option<String>,
    /// Whether it is a command, whose output is not stored.
    pub(super) is_command: bool,
    /// Whether the request was a dry run, so that there is nothing to remember.
    pub(super) is_rehearsal: bool,
}

impl Once {
    pub(super) fn note_of(request: &Request) -> MutexGuard<'_, Note> {
        request.note.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the request can be retried.
    pub(crate) fn is_keyed(&self) -> bool {
        self.0.is_some()
    }

    /// Whether an earlier attempt may have created something.
    pub(crate) fn is_again(&self) -> bool {
        self.0.as_ref().is_some_and(|request| request.is_again)
    }

    /// Returns the id of the only thing that the request creates.
    pub(crate) fn id(&self, prefix: &str) -> String {
        match &self.0 {
            Some(request) => format!("{prefix}{}", request.id),
            None => clock::id(prefix),
        }
    }

    /// Returns the id of one of several things that the request creates.
    pub(crate) fn id_of(&self, prefix: &str, number: u32) -> String {
        let Some(request) = &self.0 else {
            return clock::id(prefix);
        };
        let number = number.to_le_bytes();
        let bytes = hash("id", [request.id.as_bytes(), &number[..]]);
        clock::id_of(prefix, &first_half(bytes))
    }

    /// Returns bytes for a binary id.
    pub(crate) fn bytes(&self) -> [u8; 16] {
        match &self.0 {
            Some(request) => first_half(hash("bytes", [request.id.as_bytes()])),
            None => clock::random(),
        }
    }

    /// Returns the name under which the request lands.
    pub(crate) fn landing(&self) -> Option<String> {
        self.0.as_ref().map(|_| self.id("req-"))
    }

    /// Returns the note of this attempt or an earlier one.
    pub(crate) fn noted<T: DeserializeOwned>(&self) -> Option<T> {
        let request = self.0.as_ref()?;
        let made = Self::note_of(request).made.clone()?;
        serde_json::from_str(&made).ok()
    }

    /// Records what is about to be created. After this returns, a retry finds
    /// the note even if this process is killed.
    pub(crate) async fn note(&self, made: &(impl Serialize + Sync)) -> Result<()> {
        let Some(request) = &self.0 else {
            return Ok(());
        };
        let made = serde_json::to_string(made).map_err(|error| Failure::internal(&error))?;
        request.catalog.note_made(&request.run, &made).await?;
        Self::note_of(request).made = Some(made);
        Ok(())
    }

    /// Records the command that is about to be started. Retries attach to that
    /// from now on.
    pub(crate) async fn note_command(&self, command: &str) -> Result<()> {
        self.note(&command).await?;
        self.show_command();
        Ok(())
    }

    /// Returns the command that an attempt has recorded. Retries attach to that
    /// from now on.
    pub(crate) fn noted_command(&self) -> Option<String> {
        let command = self.noted()?;
        self.show_command();
        Some(command)
    }

    pub(super) fn show_command(&self) {
        let Some(request) = &self.0 else {
            return;
        };
        Self::note_of(request).is_command = true;
        if let Some(working) = request.at_work.lock().get_mut(&request.run.name) {
            working.command = Some(Self(Some(Arc::new(request.looked_at()))));
        }
    }

    /// Clears the note: the thing that it names was certainly not created.
    pub(crate) async fn take_back(&self) -> Result<()> {
        self.note(&()).await?;
        let Some(request) = &self.0 else {
            return Ok(());
        };
        Self::note_of(request).is_command = false;
        if let Some(working) = request.at_work.lock().get_mut(&request.run.name) {
            working.command = None;
        }
        Ok(())
    }

    /// Marks the request as a dry run: the key can be used for the real
    /// request.
    pub(crate) fn rehearsed(&self) {
        if let Some(request) = &self.0 {
            Self::note_of(request).is_rehearsal = true;
        }
    }
}

pub(super) fn first_half(bytes: [u8; 32]) -> [u8; 16] {
    let mut half = [0; 16];
    half.copy_from_slice(&bytes[..16]);
    half
}

impl Request {
    /// Copies the request for a retry that creates nothing.
    pub(super) fn looked_at(&self) -> Self {
        let made = Once::note_of(self).made.clone();
        Self {
            catalog: self.catalog.clone(),
            at_work: self.at_work.clone(),
            run: self.run.clone(),
            id: self.id.clone(),
            is_again: true,
            note: Mutex::new(Note {
                made,
                ..Note::default()
            }),
        }
    }
}
