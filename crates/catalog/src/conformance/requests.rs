//! Checks of requests with an idempotency key.

use elevo_core::TenantId;
use futures::future::join_all;

use crate::catalog::*;
use crate::conformance::assertions::{assert_not_found, assert_refused};
use crate::conformance::backend::Backend;
use crate::conformance::samples::{ALICE, BOB, at, furnished};
use crate::error::Kind;
use crate::limits::{MAX_BODY_BYTES, MAX_TEXT_BYTES};
use crate::records::{Begun, IdempotentRequest, RequestRun};

fn run(tenant: TenantId, name: u8, process: &str) -> RequestRun {
    RequestRun {
        tenant,
        name: [name; 32],
        process: process.into(),
    }
}

/// A request that begins at 10 and is kept until 20.
fn request_of(run: RequestRun) -> IdempotentRequest {
    IdempotentRequest {
        id: format!("id of {}", run.name[0]),
        run,
        fingerprint: [5; 32],
        now: at(10),
        keep_until: at(20),
    }
}

pub(crate) fn request(tenant: TenantId, name: u8) -> IdempotentRequest {
    request_of(run(tenant, name, "one"))
}

/// The same request, as another process receives it.
fn elsewhere(request: &IdempotentRequest) -> IdempotentRequest {
    let mut elsewhere = request.clone();
    elsewhere.run.process = "two".into();
    elsewhere.id = "another id".into();
    elsewhere
}

fn again(made: Option<&str>) -> Begun {
    Begun::Again {
        id: "id of 1".into(),
        made: made.map(str::to_owned),
    }
}

async fn begin(catalog: &impl Catalog, request: &IdempotentRequest) -> Begun {
    catalog.begin(request).await.expect("begin")
}

/// Later calls get the stored response of the first.
pub async fn a_request_is_carried_out_once(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let first = request(ALICE, 1);
    assert_eq!(begin(&catalog, &first).await, Begun::New);
    assert_eq!(begin(&catalog, &elsewhere(&first)).await, Begun::Running);
    catalog.note_made(&first.run, "it").await.expect("note");
    let too_long = vec![0; MAX_BODY_BYTES + 1];
    assert_refused(catalog.finish(&first.run, 201, Some(&too_long)).await);
    let body = [0, 255, 10, 39];
    let finished = catalog.finish(&first.run, 201, Some(&body)).await;
    finished.expect("it is at work");
    let done = Begun::Done {
        id: "id of 1".into(),
        made: Some("it".into()),
        status: 201,
        body: Some(body.to_vec()),
    };
    for again in [&first, &elsewhere(&first)] {
        assert_eq!(begin(&catalog, again).await, done);
    }
    // A request that is finished, or was never begun, does not change.
    for run in [&first.run, &run(ALICE, 2, "one"), &run(BOB, 1, "one")] {
        assert_not_found(catalog.finish(run, 500, None).await, Kind::Request);
        assert_not_found(catalog.note_made(run, "that").await, Kind::Request);
        catalog.release(run).await.expect("release");
        catalog.abandon(run).await.expect("abandon");
    }
    assert_eq!(begin(&catalog, &first).await, done);
    assert_eq!(begin(&catalog, &request(BOB, 1)).await, Begun::New);
    let other = request(ALICE, 2);
    begin(&catalog, &other).await;
    let finished = catalog.finish(&other.run, 204, None).await;
    finished.expect("it is at work");
    let done = begin(&catalog, &other).await;
    assert!(
        matches!(
            &done,
            Begun::Done {
                status: 204,
                made: None,
                body: None,
                ..
            }
        ),
        "{done:?}"
    );
}

/// The mismatch is reported while the first request is running, after it was
/// released and after it was finished.
pub async fn another_content_under_the_same_name_is_a_mismatch(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let first = request(ALICE, 1);
    assert_eq!(begin(&catalog, &first).await, Begun::New);
    let mut other = first.clone();
    other.fingerprint = [6; 32];
    assert_eq!(begin(&catalog, &other).await, Begun::Mismatch);
    catalog.release(&first.run).await.expect("release");
    assert_eq!(begin(&catalog, &other).await, Begun::Mismatch);
    assert_eq!(begin(&catalog, &first).await, again(None));
    let finished = catalog.finish(&first.run, 200, None).await;
    finished.expect("it is at work");
    assert_eq!(begin(&catalog, &other).await, Begun::Mismatch);
    let unknown = TenantId::new([3; 16]);
    let begun = catalog.begin(&request(unknown, 1)).await;
    assert_not_found(begun, Kind::Owner);
}

/// A request past its `keep_until` is unknown before and after it is deleted.
pub async fn an_old_request_counts_as_unknown(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let first = request(ALICE, 1);
    begin(&catalog, &first).await;
    catalog.note_made(&first.run, "it").await.expect("note");
    let finished = catalog.finish(&first.run, 200, Some(b"old")).await;
    finished.expect("it is at work");
    let later = IdempotentRequest {
        now: at(20),
        keep_until: at(30),
        fingerprint: [6; 32],
        ..first
    };
    assert_eq!(begin(&catalog, &later).await, Begun::New);
    assert_eq!(begin(&catalog, &later).await, again(None));
    for n in 0..1100_u32 {
        let mut request = request(BOB, 0);
        request.run.name[..4].copy_from_slice(&n.to_be_bytes());
        begin(&catalog, &request).await;
    }
    let forget = async |now| catalog.forget_idempotent(at(now)).await.expect("forget");
    assert_eq!(forget(19).await, 0);
    assert_eq!(forget(20).await, 1100);
    assert_eq!(begin(&catalog, &later).await, again(None));
    assert_eq!(forget(30).await, 1);
    assert_eq!(forget(30).await, 0);
}

/// Abandoning a request also deletes the text of its `note_made`.
pub async fn an_abandoned_request_is_new(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let first = request(ALICE, 1);
    begin(&catalog, &first).await;
    catalog.note_made(&first.run, "it").await.expect("note");
    catalog.abandon(&first.run).await.expect("abandon");
    catalog.abandon(&first.run).await.expect("also twice");
    let mut other = first.clone();
    other.fingerprint = [6; 32];
    assert_eq!(begin(&catalog, &other).await, Begun::New);
    assert_eq!(begin(&catalog, &other).await, again(None));
}

/// Any process can begin the request again, and gets the text of the last
/// `note_made`.
pub async fn a_released_request_is_begun_again_with_its_note(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let first = request(ALICE, 1);
    begin(&catalog, &first).await;
    let too_long = "x".repeat(MAX_TEXT_BYTES + 1);
    assert_refused(catalog.note_made(&first.run, &too_long).await);
    for made in ["it", "that"] {
        catalog.note_made(&first.run, made).await.expect("note");
    }
    catalog.release(&first.run).await.expect("release");
    catalog.release(&first.run).await.expect("also twice");
    let second = elsewhere(&first);
    assert_eq!(begin(&catalog, &second).await, again(Some("that")));
    assert_eq!(begin(&catalog, &first).await, Begun::Running);
    // A process that has lost track of its request can begin it again.
    assert_eq!(begin(&catalog, &second).await, again(Some("that")));
}

/// A process whose request was released cannot change it any more.
pub async fn only_the_process_that_runs_a_request_changes_it(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let (first, second) = (request(ALICE, 1), elsewhere(&request(ALICE, 1)));
    begin(&catalog, &first).await;
    catalog.release(&first.run).await.expect("release");
    begin(&catalog, &second).await;
    let finished = catalog.finish(&first.run, 200, None).await;
    assert_not_found(finished, Kind::Request);
    let noted = catalog.note_made(&first.run, "it").await;
    assert_not_found(noted, Kind::Request);
    catalog.release(&first.run).await.expect("release");
    catalog.abandon(&first.run).await.expect("abandon");
    assert_eq!(begin(&catalog, &first).await, Begun::Running);
    catalog
        .finish(&second.run, 200, None)
        .await
        .expect("finish");
}

/// Finished requests and requests of live processes do not change.
pub async fn requests_of_dead_processes_are_begun_again(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let requests = ["dead", "gone", "alive", "too"]
        .iter()
        .zip(1..)
        .map(|(process, name)| request_of(run(ALICE, name, process)));
    let requests: Vec<_> = requests.collect();
    for request in &requests {
        begin(&catalog, request).await;
    }
    let answered = request_of(run(ALICE, 5, "dead"));
    begin(&catalog, &answered).await;
    let finished = catalog.finish(&answered.run, 204, None).await;
    finished.expect("it is at work");
    let release = async |alive: &[&str]| catalog.release_all_but(alive).await.expect("release");
    assert_eq!(release(&["alive", "too", "new"]).await, 2);
    assert_eq!(release(&["alive", "too", "new"]).await, 0);
    let begun = async |n: usize| {
        let mut request = requests[n].clone();
        request.run.process = "new".into();
        begin(&catalog, &request).await
    };
    assert_eq!(begun(0).await, again(None));
    assert_eq!(begun(2).await, Begun::Running);
    let done = begin(&catalog, &answered).await;
    assert!(matches!(done, Begun::Done { status: 204, .. }), "{done:?}");
    assert_eq!(release(&[]).await, 3);
}

/// Releasing the requests of one process leaves those of all others alone, and also
/// its finished ones.
pub async fn only_requests_of_a_dead_process_are_released(backend: &impl Backend) {
    let catalog = furnished(backend).await;
    let of_dead = request_of(run(ALICE, 1, "dead"));
    let of_other = request_of(run(ALICE, 2, "other"));
    let finished = request_of(run(ALICE, 3, "dead"));
    for request in [&of_dead, &of_other, &finished] {
        begin(&catalog, request).await;
    }
    let done = catalog.finish(&finished.run, 204, None).await;
    done.expect("it is at work");
    let release = async |process| catalog.release_of(process).await.expect("release");
    assert_eq!(release("unknown").await, 0);
    assert_eq!(release("dead").await, 1);
    assert_eq!(release("dead").await, 0);
    assert_eq!(begin(&catalog, &elsewhere(&of_dead)).await, again(None));
    assert_eq!(begin(&catalog, &elsewhere(&of_other)).await, Begun::Running);
    let again = begin(&catalog, &elsewhere(&finished)).await;
    assert!(matches!(again, Begun::Done { .. }), "{again:?}");
}

/// Checks promise 22 through two handles, with a different process for each
/// call.
pub async fn one_of_several_equal_concurrent_requests_is_new(backend: &impl Backend) {
    let handles = [furnished(backend).await, backend.open().await];
    let requests = (0..32).map(|n| request_of(run(ALICE, 1, &n.to_string())));
    let requests: Vec<_> = requests.collect();
    let each = requests.iter().zip(handles.iter().cycle());
    let begun = join_all(each.map(|(request, handle)| begin(handle, request))).await;
    let new = begun.iter().filter(|begun| **begun == Begun::New).count();
    let running = begun.iter().filter(|begun| **begun == Begun::Running);
    assert_eq!((new, running.count()), (1, 31));
}
