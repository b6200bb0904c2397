use std::time::{Duration, Instant};

use elevo_agent_link::{Command, LinkError, ProcessKind, ProcessState, StartFailure};
use elevo_testkit::wait::until_async;

use crate::support::{Pair, finish, is_alive, read_until, until, within};

const SIGKILL: i32 = 9;
const SIGTERM: i32 = 15;

#[tokio::test]
async fn a_command_has_output_on_both_streams_and_an_exit_code() {
    let pair = Pair::start().await;
    let done = pair.run("echo out; echo err >&2; exit 3").await;
    assert_eq!(done.stdout, "out\n");
    assert_eq!(done.stderr, "err\n");
    assert_eq!(done.exit.code, Some(3));
    assert_eq!(done.exit.signal, None);
    assert!(!done.exit.timed_out);
    assert_eq!(done.exit.offset, 8);
    assert_eq!(pair.run("true").await.exit.code, Some(0));
}

#[tokio::test]
async fn a_command_gets_its_directory_and_variables_but_not_those_of_the_agent() {
    let pair = Pair::start().await;
    let mut command = pair.command("env", "pwd; env");
    command.envs.insert("GREETING".into(), "hello there".into());
    let done = finish(&mut pair.start_command(command).await).await;
    let path = pair.directory.path().canonicalize().unwrap();
    assert!(done.stdout.starts_with(path.to_str().unwrap()));
    assert!(done.stdout.contains("GREETING=hello there\n"));
    assert!(done.stdout.contains("SANDBOX_ID=sbx-test\n"));
    for ours in ["SANDBOX_TOKEN", "WORKSPACE_SERVER", "AGENT_LOG_LEVEL"] {
        assert!(!done.stdout.contains(ours), "{ours}");
    }
}

#[tokio::test]
async fn an_exit_reports_the_signal_that_ended_the_command() {
    let pair = Pair::start().await;
    let done = pair.run("kill -SEGV $$").await;
    assert_eq!((done.exit.code, done.exit.signal), (None, Some(11)));
}

#[tokio::test]
async fn a_failure_to_start_reports_its_cause() {
    let pair = Pair::start().await;
    let kind_of = async |command: Command| match within(pair.link.run(command)).await {
        Err(LinkError::CannotStart { kind, message }) => {
            assert!(!message.is_empty());
            kind
        }
        other => panic!("{other:?}"),
    };
    let mut command = pair.command("a", "true");
    command.cwd = Some("/nowhere/at/all".into());
    assert_eq!(kind_of(command).await, StartFailure::NoCwd);

    let mut command = pair.command("a", "true");
    command.cwd = Some("/etc/passwd".into());
    assert_eq!(kind_of(command).await, StartFailure::NoCwd);

    let command = pair.command("a", &"x".repeat(200_000));
    assert_eq!(kind_of(command).await, StartFailure::TooLong);

    let command = pair.command("a", &"x".repeat(3_000_000));
    assert_eq!(kind_of(command).await, StartFailure::TooLong);

    assert!(pair.link.processes().is_empty());
    assert_eq!(pair.run("echo fine").await.stdout, "fine\n");
}

#[tokio::test]
async fn ids_are_unique_and_names_of_variables_are_checked() {
    let pair = Pair::start().await;
    let mut output = pair.start_command(pair.command("same", "true")).await;
    finish(&mut output).await;
    let again = within(pair.link.run(pair.command("same", "true"))).await;
    assert!(matches!(again, Err(LinkError::Invalid(_))), "{again:?}");
    let mut command = pair.command("other", "true");
    command.envs.insert("A=B".into(), "C".into());
    let wrong = within(pair.link.run(command)).await;
    assert!(matches!(wrong, Err(LinkError::Invalid(_))), "{wrong:?}");
}

#[tokio::test]
async fn a_time_out_ends_the_whole_group() {
    let pair = Pair::start().await;
    let script = "sleep 1000 & echo $!; sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done'";
    let mut command = pair.command("slow", script);
    command.timeout = Some(Duration::from_millis(200));
    let started = Instant::now();
    let mut output = pair.start_command(command).await;
    let done = finish(&mut output).await;
    assert!(done.exit.timed_out);
    assert_eq!(done.exit.signal, Some(SIGTERM));
    assert!(started.elapsed() >= Duration::from_millis(200));
    let pids: Vec<_> = done.stdout.lines().map(str::to_owned).collect();
    assert_eq!(pids.len(), 2);
    until("both children are gone", || {
        !pids.iter().any(|pid| is_alive(pid))
    })
    .await;
    assert!(started.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_command_that_ignores_its_timeout_is_killed() {
    let pair = Pair::start().await;
    let script = "trap '' TERM; while :; do sleep 0.1; done";
    let mut command = pair.command("stubborn", script);
    command.timeout = Some(Duration::from_millis(100));
    let done = finish(&mut pair.start_command(command).await).await;
    assert!(done.exit.timed_out);
    assert_eq!(done.exit.signal, Some(SIGKILL));
}

#[tokio::test]
async fn a_signal_reaches_the_whole_group() {
    let pair = Pair::start().await;
    let command = pair.command("group", "sleep 1000 & echo $!; wait");
    let mut output = pair.start_command(command).await;
    let child = read_until(&mut output, "\n").await;
    pair.link.signal("group", SIGKILL).await.unwrap();
    assert_eq!(finish(&mut output).await.exit.signal, Some(SIGKILL));
    until("the child is gone", || !is_alive(&child)).await;
    let again = pair.link.signal("group", SIGKILL).await;
    assert_eq!(again, Err(LinkError::Ended));
    let nobody = pair.link.signal("nobody", SIGKILL).await;
    assert_eq!(nobody, Err(LinkError::NoSuchProcess));
    let no_signal = pair.link.signal("group", 0).await;
    assert!(matches!(no_signal, Err(LinkError::Invalid(_))));
}

#[tokio::test]
async fn the_end_of_a_command_does_not_wait_for_its_children() {
    let pair = Pair::start().await;
    let script = "(sleep 1; echo late; sleep 1; echo later >alive; sleep 1000) & echo $!; exit 5";
    let done = pair.run(script).await;
    assert_eq!(done.exit.code, Some(5));
    assert_eq!(done.stdout.lines().count(), 1);
    // If SIGPIPE had killed the child, this file would never exist.
    let file = pair.directory.path().join("alive");
    until("the child writes on", || file.exists()).await;
    let mut again = within(pair.link.attach("run-0", 0)).await.unwrap();
    assert!(!finish(&mut again).await.stdout.contains("late"));
    pair.run(&format!("kill -9 -- {}", done.stdout.trim()))
        .await;
}

#[tokio::test]
async fn lists_running_and_ended_processes() {
    let pair = Pair::start().await;
    let mut command = pair.command("one", "echo hello; sleep 0.1");
    command.background = true;
    let mut output = pair.start_command(command).await;
    let process = pair.link.process("one").unwrap();
    assert_eq!(process.kind, ProcessKind::Command);
    assert_eq!(process.state, ProcessState::Running);
    assert_eq!(process.command, "echo hello; sleep 0.1");
    assert!(process.background && process.pid > 1 && process.started_ms > 0);
    let done = finish(&mut output).await;
    let process = pair.link.process("one").unwrap();
    assert_eq!(process.state, ProcessState::Exited);
    assert_eq!(process.exit, Some(done.exit));
    assert_eq!(process.end, 6);
}

#[tokio::test]
async fn limits_running_commands_and_kept_records() {
    let pair = Pair::start().await;
    for index in 0..64 {
        let mut command = pair.command(&format!("sleep-{index}"), "sleep 1000");
        command.read = false;
        assert!(within(pair.link.run(command)).await.unwrap().is_none());
    }
    let one_more = within(pair.link.run(pair.command("one-more", "true"))).await;
    let limit = LinkError::TooMany {
        what: "running commands".into(),
        limit: 64,
    };
    assert_eq!(one_more.unwrap_err(), limit);
    for index in 0..64 {
        let id = format!("sleep-{index}");
        within(pair.link.signal(&id, SIGKILL)).await.unwrap();
    }
    until("all have ended", || {
        let processes = pair.link.processes();
        processes.iter().all(|p| p.state == ProcessState::Exited)
    })
    .await;
    for index in 0..150 {
        let id = format!("short-{index}");
        finish(&mut pair.start_command(pair.command(&id, "true")).await).await;
    }
    until("the oldest are forgotten", || {
        pair.link.processes().len() == 200
    })
    .await;
    assert!(pair.link.process("short-149").is_some());
    let gone = within(pair.link.attach("sleep-0", 0)).await;
    let kept = within(pair.link.attach("short-0", 0)).await;
    assert!(kept.is_ok());
    let forgotten = pair.link.process("sleep-0").is_none();
    assert_eq!(forgotten, gone.is_err());
    let sleeps = pair.link.processes();
    let sleeps = sleeps.iter().filter(|p| p.id.starts_with("sleep"));
    assert_eq!(sleeps.count(), 50);
}

#[tokio::test]
async fn a_shutdown_sends_sigterm_before_sigkill() {
    let mut pair = Pair::start().await;
    let polite = "trap 'echo bye >polite; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    let mut output = pair.start_command(pair.command("polite", polite)).await;
    read_until(&mut output, "ready").await;
    let rude = "trap '' TERM; echo $$; while :; do sleep 0.05; done";
    let mut output = pair.start_command(pair.command("rude", rude)).await;
    let rude = read_until(&mut output, "\n").await;
    let started = Instant::now();
    within(pair.link.shut_down(Duration::from_millis(500)))
        .await
        .unwrap();
    assert!(started.elapsed() < Duration::from_millis(1500));
    assert!(pair.directory.path().join("polite").exists());
    assert!(!is_alive(&rude));
    until_async("the agent ends", async || {
        pair.agent.has_ended().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_program_runs_without_a_shell_and_the_end_has_a_time() {
    let pair = Pair::start().await;
    let mut command = pair.command("c", "");
    command.args = ["printf", "%s|", "a b", "$HOME", "*"]
        .map(Into::into)
        .into();
    let mut output = pair.start_command(command).await;
    let finished = finish(&mut output).await;
    assert_eq!(finished.stdout, "a b|$HOME|*|");
    until("the end is reported", || {
        let process = pair.link.process("c");
        process.is_some_and(|process| process.ended_ms.is_some())
    })
    .await;
    let process = pair.link.process("c").unwrap();
    assert_eq!(process.command, "printf %s| a b $HOME *");
    assert!(process.ended_ms >= Some(process.started_ms));
    let mut command = pair.command("d", "");
    command.args = vec!["/no/such/program".into()];
    let failed = within(pair.link.run(command)).await.unwrap_err();
    assert!(failed.to_string().contains("/no/such/program"), "{failed}");
}
