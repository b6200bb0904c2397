//! Archives that clients send. An archive is received completely before a
//! thread works on it, so that a slow or silent client does not occupy a
//! thread. A small archive stays in memory; a larger one goes to an unnamed
//! file, which a crash cannot leave behind.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, Write};

use axum::body::Body;
use elevo_core::ErrorCode;
use futures::StreamExt;

use crate::app::access::principal::Principal;
use crate::failure::{Failure, Result};
use crate::http::shared::Shared;
use crate::platform::share;

/// Archives up to this size stay in memory. Larger archives are written to a
/// file in pieces of this size.
const PIECE: usize = 256 << 10;

/// Maximum size of an archive that does not count towards the tenant's share of
/// memory.
const UNCOUNTED: usize = 32 << 10;

/// Receives the archive that is the body of a request.
pub(super) async fn receive(
    shared: &Shared,
    who: &Principal,
    body: Body,
) -> Result<Box<dyn Read + Send>> {
    let app = &shared.app;
    let most = app.config.limits.most_archive_bytes();
    let mut pieces = body.into_data_stream();
    let (mut buffer, mut file, mut length) = (Vec::new(), None, 0);
    let mut held = None;
    while let Some(piece) = pieces.next().await {
        let piece =
            piece.map_err(|error| Failure::invalid(format!("the body is incomplete: {error}")))?;
        length += piece.len() as u64;
        if length > most {
            let message = format!("the archive has more than {most} bytes");
            return Err(Failure::new(ErrorCode::PayloadTooLarge, message));
        }
        buffer.extend_from_slice(&piece);
        if buffer.len() > UNCOUNTED && held.is_none() {
            let counted = app.stores.shares.hold(who.tenant, PIECE);
            held = Some(counted.ok_or_else(share::too_many_bytes)?);
        }
        if buffer.len() >= PIECE {
            app.room.check()?;
            let writing = async {
                let file = match &mut file {
                    Some(file) => file,
                    none => none.insert(tempfile::tempfile_in(&app.config.data_dir)?),
                };
                file.write_all(&buffer)
            };
            let written = app.stores.shares.apart(who.tenant, writing).await;
            written.map_err(not_kept)?;
            buffer.clear();
        }
    }
    let Some(mut file) = file else {
        return Ok(Box::new(Cursor::new(buffer)));
    };
    let rest = async { rewound(&mut file, &buffer) };
    let written = app.stores.shares.apart(who.tenant, rest).await;
    written.map_err(not_kept)?;
    Ok(Box::new(BufReader::with_capacity(PIECE, file)))
}

fn rewound(file: &mut File, rest: &[u8]) -> io::Result<()> {
    file.write_all(rest)?;
    file.rewind()
}

fn not_kept(error: io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Failure::full("the server's disk has no space for the archive").caused_by(&error)
        }
        _ => Failure::internal(&error),
    }
}
