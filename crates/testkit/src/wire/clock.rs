//! Sleeps that are exact to about 0.1 ms. The timer of Tokio rounds up to whole
//! milliseconds, which would double a delay of 1 ms in two halves.

use std::thread;
use std::time::{Duration, Instant};

/// The last part of a sleep, which a thread does.
const EXACT: Duration = Duration::from_millis(3);

/// Sleeps until `due`.
pub(super) async fn sleep_until(due: Instant) {
    let left = due.saturating_duration_since(Instant::now());
    if let Some(rough) = left.checked_sub(EXACT) {
        tokio::time::sleep(rough).await;
    }
    let left = due.saturating_duration_since(Instant::now());
    if !left.is_zero() {
        // The sleep is the delay that the test has asked for.
        tokio::task::spawn_blocking(move || thread::sleep(left))
            .await
            .expect("sleeping does not panic");
    }
}
