use elevo_agent_link::{Event, LinkError, Output, ProcessState, Stream};

use crate::support::{Pair, finish, read_until, until, within};

const MIB: u64 = 1024 * 1024;

/// Numbered lines of 16 bytes.
fn lines(count: u64) -> String {
    format!("seq -f %015.0f 0 {}", count - 1)
}

/// Checks that bytes from an offset on are those of [`lines`].
fn check_lines(offset: u64, data: &[u8]) {
    let mut position = offset;
    let mut rest = data;
    while !rest.is_empty() {
        let line = format!("{:015}\n", position / 16);
        let from = (position % 16) as usize;
        let length = rest.len().min(16 - from);
        assert_eq!(&rest[..length], &line.as_bytes()[from..from + length]);
        rest = &rest[length..];
        position += length as u64;
    }
}

/// Reads lines from the current offset to the end.
async fn read_lines(output: &mut Output) -> u64 {
    loop {
        match within(output.next()).await.unwrap() {
            Event::Data { offset, data, .. } => check_lines(offset, &data),
            Event::Gap { from, to } => panic!("a gap from {from} to {to}"),
            Event::Exit(exit) => return exit.offset,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_output_arrives_completely_beside_readers_that_never_read() {
    let pair = Pair::start().await;
    let before = pair.agent.resident();
    let stuck = pair.start_command(pair.command("stuck", "yes")).await;
    let command = pair.command("much", &lines(64 * MIB / 16));
    let mut output = pair.start_command(command).await;
    let stuck_too = within(pair.link.attach("much", 0)).await.unwrap();
    assert_eq!(read_lines(&mut output).await, 64 * MIB);
    let after = pair.agent.resident();
    assert!(before < 20_000_000, "idle: {before}");
    assert!(after < 40_000_000, "after: {after}");
    drop(stuck_too);
    // The command could not write more than the limit of unread output.
    pair.link.signal("stuck", 9).await.unwrap();
    until("it has ended", || {
        pair.link.process("stuck").unwrap().state == ProcessState::Exited
    })
    .await;
    let end = pair.link.process("stuck").unwrap().end;
    assert!((MIB..MIB + 512 * 1024).contains(&end), "{end}");
    drop(stuck);
}

#[tokio::test]
async fn a_slow_reader_sees_the_gap() {
    let pair = Pair::start().await;
    let mut fast = pair
        .start_command(pair.command("much", &lines(8 * MIB / 16)))
        .await;
    let mut slow = within(pair.link.attach("much", 0)).await.unwrap();
    assert_eq!(read_lines(&mut fast).await, 8 * MIB);
    let mut gaps = 0;
    loop {
        match within(slow.next()).await.unwrap() {
            Event::Data { offset, data, .. } => check_lines(offset, &data),
            Event::Gap { from, to } => {
                assert!(from < to && to <= 8 * MIB);
                gaps += 1;
            }
            Event::Exit(exit) => {
                assert_eq!(exit.offset, 8 * MIB);
                break;
            }
        }
    }
    assert_eq!(gaps, 1);
}

#[tokio::test]
async fn a_background_command_drops_its_oldest_output() {
    let pair = Pair::start().await;
    let mut command = pair.command("background", &lines(16 * MIB / 16));
    command.background = true;
    command.read = false;
    within(pair.link.run(command)).await.unwrap();
    until("it ends without a reader", || {
        pair.link.process("background").unwrap().state == ProcessState::Exited
    })
    .await;
    let mut output = within(pair.link.attach("background", 0)).await.unwrap();
    let first = within(output.next()).await.unwrap();
    let Event::Gap { from: 0, to } = first else {
        panic!("{first:?}");
    };
    let kept = 16 * MIB - to;
    assert!((2 * MIB - 256 * 1024..=2 * MIB + 256 * 1024).contains(&kept));
    assert_eq!(read_lines(&mut output).await, 16 * MIB);
}

#[tokio::test]
async fn a_reader_may_begin_anywhere() {
    let pair = Pair::start().await;
    let mut output = pair.start_command(pair.command("some", &lines(1000))).await;
    assert_eq!(read_lines(&mut output).await, 16_000);
    for offset in [0, 1, 8000, 15_999, 16_000] {
        let mut output = within(pair.link.attach("some", offset)).await.unwrap();
        assert_eq!(read_lines(&mut output).await, 16_000);
    }
    let beyond = within(pair.link.attach("some", 16_001)).await;
    assert!(matches!(beyond, Err(LinkError::Invalid(_))));
    let nobody = within(pair.link.attach("nobody", 0)).await;
    assert!(matches!(nobody, Err(LinkError::NoSuchProcess)));
}

#[tokio::test]
async fn output_keeps_its_stream_and_its_order() {
    let pair = Pair::start().await;
    let script = "for i in 1 2 3 4 5; do echo o$i; sleep 0.05; echo e$i >&2; sleep 0.05; done";
    let mut output = pair.start_command(pair.command("both", script)).await;
    let mut all = String::new();
    while let Event::Data { stream, data, .. } = within(output.next()).await.unwrap() {
        let text = String::from_utf8(data.to_vec()).unwrap();
        let is_error = text.starts_with('e');
        assert_eq!(stream == Stream::Stderr, is_error);
        all.push_str(&text);
    }
    assert_eq!(all, "o1\ne1\no2\ne2\no3\ne3\no4\ne4\no5\ne5\n");
}

#[tokio::test]
async fn many_tiny_pieces_use_little_memory() {
    let pair = Pair::start().await;
    let script = "i=0; while [ $i -lt 20000 ]; do printf o; printf e >&2; i=$((i+1)); done";
    let mut output = pair.start_command(pair.command("tiny", script)).await;
    // The whole output fits into the buffers, so the command ends although the
    // test has not read any of it yet.
    until("the command has ended", || {
        pair.link.process("tiny").unwrap().state == ProcessState::Exited
    })
    .await;
    let done = finish(&mut output).await;
    assert_eq!(done.stdout, "o".repeat(20_000));
    assert_eq!(done.stderr, "e".repeat(20_000));
    assert!(pair.agent.resident() < 20_000_000);
}

#[tokio::test]
async fn the_output_kept_of_many_commands_is_bounded() {
    let pair = Pair::start().await;
    for index in 0..60 {
        let mut command = pair.command(&format!("big-{index}"), "head -c 2000000 /dev/zero");
        command.background = true;
        command.read = false;
        within(pair.link.run(command)).await.unwrap();
    }
    until("all have ended", || {
        let processes = pair.link.processes();
        processes.iter().all(|p| p.state == ProcessState::Exited)
    })
    .await;
    let resident = pair.agent.resident();
    assert!(resident < 60_000_000, "{resident}");
    let mut last = within(pair.link.attach("big-59", 0)).await.unwrap();
    let mut output = pair.start_command(pair.command("next", "echo on")).await;
    read_until(&mut output, "on").await;
    while !matches!(within(last.next()).await.unwrap(), Event::Exit(_)) {}
}
