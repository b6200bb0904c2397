use std::time::Duration;

use bytes::Bytes;
use elevo_agent_link::LinkError;

use crate::support::{Pair, bytes, finish, read_until, within};

#[tokio::test]
async fn a_command_without_input_reads_an_empty_input() {
    let pair = Pair::start().await;
    assert_eq!(pair.run("cat; echo end").await.stdout, "end\n");
    let pair_input = pair.link.input("run-0", bytes("x"), false).await;
    assert_eq!(pair_input, Err(LinkError::Ended));
}

#[tokio::test]
async fn a_command_reads_its_initial_input() {
    let pair = Pair::start().await;
    let mut command = pair.command("cat", "cat; echo end");
    command.stdin = bytes("given\n");
    let mut output = pair.start_command(command).await;
    assert_eq!(finish(&mut output).await.stdout, "given\nend\n");
}

#[tokio::test]
async fn large_initial_input_arrives_completely() {
    let pair = Pair::start().await;
    let mut command = pair.command("sum", "sleep 0.3; cksum");
    let data: Vec<u8> = (0..5_000_000u32).map(|i| (i / 7) as u8).collect();
    command.stdin = Bytes::from(data.clone());
    let mut output = pair.start_command(command).await;
    let sum = finish(&mut output).await.stdout;
    let file = pair.directory.path().join("data");
    std::fs::write(file, data).unwrap();
    assert_eq!(sum, pair.run("cksum <data").await.stdout);
    assert!(pair.agent.resident() < 20_000_000);
}

#[tokio::test]
async fn input_can_be_sent_later_and_closed() {
    let pair = Pair::start().await;
    let mut command = pair.command("cat", "cat; echo end");
    command.stdin = bytes("first ");
    command.open_stdin = true;
    let mut output = pair.start_command(command).await;
    read_until(&mut output, "first ").await;
    within(pair.link.input("cat", bytes("second\n"), false))
        .await
        .unwrap();
    read_until(&mut output, "second\n").await;
    within(pair.link.input("cat", bytes("third\n"), true))
        .await
        .unwrap();
    let done = finish(&mut output).await;
    assert_eq!(done.stdout, "third\nend\n");
    let late = within(pair.link.input("cat", bytes("late"), false)).await;
    assert_eq!(late, Err(LinkError::Ended));
}

#[tokio::test]
async fn a_process_that_does_not_read_blocks_only_its_writer() {
    let pair = Pair::start().await;
    let mut command = pair.command("deaf", "sleep 1000");
    command.open_stdin = true;
    pair.start_command(command).await;
    let link = pair.link.clone();
    let much = Bytes::from(vec![b'x'; 10_000_000]);
    let writing = tokio::spawn(async move { link.input("deaf", much, true).await });
    // This runtime has one thread, so the task runs now and is the first to
    // write input.
    tokio::task::yield_now().await;
    // Calls that are cancelled must not queue more input in the agent.
    for _ in 0..20 {
        let piece = Bytes::from(vec![b'y'; 65_536]);
        let writing = pair.link.input("deaf", piece, false);
        let timed_out = tokio::time::timeout(Duration::from_millis(5), writing).await;
        assert!(timed_out.is_err());
    }
    assert!(!writing.is_finished());
    assert_eq!(pair.run("echo others go on").await.exit.code, Some(0));
    assert!(pair.agent.resident() < 20_000_000);
    pair.link.signal("deaf", 9).await.unwrap();
    assert_eq!(within(writing).await.unwrap(), Err(LinkError::Ended));
}

#[tokio::test]
async fn writing_to_a_closed_input_fails() {
    let pair = Pair::start().await;
    let mut command = pair.command("closed", "exec 0<&-; echo closed; sleep 1000");
    command.open_stdin = true;
    let mut output = pair.start_command(command).await;
    read_until(&mut output, "closed").await;
    let written = within(pair.link.input("closed", bytes("x"), false)).await;
    assert_eq!(written, Err(LinkError::Ended));
    pair.link.signal("closed", 9).await.unwrap();
}
