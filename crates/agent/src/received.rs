//! The numbered input that a terminal has received, by client.
//!
//! A client that has lost its connection sends the input again that was not
//! acknowledged. The agent keeps the numbers, because it runs as long as the
//! terminal: the server may restart in between.

use std::collections::VecDeque;

/// Maximum number of clients whose numbers are kept for one terminal. The
/// client with the oldest input is removed first.
const MAX_CLIENTS: usize = 16;

/// The last number of each client, the client with the newest input last.
#[derive(Debug, Default)]
pub(crate) struct Received(VecDeque<(String, u64)>);

impl Received {
    /// Returns false for input that this terminal has received before. Input
    /// without a number is always new.
    pub(crate) fn is_new(&self, client: &str, seq: u64) -> bool {
        let last = self.0.iter().find(|(name, _)| name == client);
        seq == 0 || last.is_none_or(|(_, last)| seq > *last)
    }

    pub(crate) fn record(&mut self, client: &str, seq: u64) {
        if seq == 0 {
            return;
        }
        self.0.retain(|(name, _)| name != client);
        if self.0.len() == MAX_CLIENTS {
            self.0.pop_front();
        }
        self.0.push_back((client.to_owned(), seq));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_with_a_number_is_new_once_for_each_client() {
        let mut received = Received::default();
        assert!(received.is_new("a", 1));
        received.record("a", 1);
        assert!(!received.is_new("a", 1));
        assert!(received.is_new("a", 2) && received.is_new("b", 1));
        received.record("a", 0);
        assert!(received.is_new("a", 0) && !received.is_new("a", 1));
    }

    #[test]
    fn keeps_the_numbers_of_the_clients_with_the_newest_input() {
        let mut received = Received::default();
        received.record("first", 1);
        for client in 1..MAX_CLIENTS {
            received.record(&client.to_string(), 1);
        }
        received.record("first", 2);
        received.record("last", 1);
        assert!(!received.is_new("first", 2) && !received.is_new("last", 1));
        assert!(received.is_new("1", 1));
        assert_eq!(received.0.len(), MAX_CLIENTS);
    }
}
