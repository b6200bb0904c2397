use bollard::Docker;
use bollard::errors::Error;
use bollard::query_parameters::LogsOptionsBuilder;
use elevo_core::Timestamp;
use futures::StreamExt;

use crate::log_tail::LogTail;
use crate::runtime::{ContainerId, Logs, LogsQuery};

/// Reads the requested logs. Holds at most the limit and one line in memory.
pub(super) async fn read(
    docker: &Docker,
    id: &ContainerId,
    query: &LogsQuery,
) -> Result<Logs, Error> {
    let tail = query
        .tail
        .map_or("all".to_owned(), |lines| lines.to_string());
    let options = LogsOptionsBuilder::default()
        .stdout(true)
        .stderr(true)
        .tail(&tail)
        .since(query.since.map_or(0, seconds))
        .until(query.until.map_or(0, seconds))
        .build();
    let mut stream = Box::pin(docker.logs(id.as_str(), Some(options)));
    let mut end = LogTail::new(query.limit);
    while let Some(piece) = stream.next().await {
        end.push(piece?.into_bytes());
    }
    Ok(end.finish())
}

/// Converts a time to the engine's seconds. The minimum is 1, because 0 means
/// no limit.
fn seconds(time: Timestamp) -> i32 {
    i32::try_from(time.seconds()).unwrap_or(i32::MAX).max(1)
}
