use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::Args;
use elevo_api as api;
use futures::StreamExt;
use reqwest::{Body, Method};
use tokio_util::io::ReaderStream;

use crate::client::paths::TEMPLATES;
use crate::client::{Call, ClientError, Done};
use crate::errors::FileProblem;
use crate::output::format;

/// Create a template from an image archive, without a registry.
#[derive(Debug, Args)]
#[command(after_help = "\
The archive has one image, as `docker save` writes it: plain, gzip or zstd. The
images of a release are such archives. The image must have /bin/sh. Needs a key
with the scope `system`.

Examples:
  elevo template load elevo-image-python-3.13-linux-x86_64.tar.zst --name python
  docker save my-image:1 | gzip > my-image.tar.gz && elevo template load my-image.tar.gz")]
pub(super) struct Load {
    /// The archive
    file: PathBuf,

    /// Name of the template; by default that of the file without `.tar…`
    #[arg(long)]
    name: Option<String>,
}

/// Bytes of an archive that are read at a time.
const PIECE: usize = 128 << 10;

pub(super) fn run(call: &mut Call, args: &Load) -> anyhow::Result<()> {
    let name = match &args.name {
        Some(name) => name.clone(),
        None => name_of(&args.file),
    };
    let done = Arc::new(Done::default());
    let sending = send(call, &name, &args.file, &done);
    let added = call.watch_done("loading the image", "", &done, sending)?;
    match call.output.is_json() {
        true => call.output.value(&added)?,
        false => {
            let (name, size) = (format::first_line(&added.name), format::bytes(added.size));
            let image = format::first_line(&added.image);
            call.output
                .line(format!("Created {name} from {image}, {size}"))?;
        }
    }
    Ok(())
}

async fn send(
    call: &Call,
    name: &str,
    path: &Path,
    done: &Arc<Done>,
) -> anyhow::Result<api::Template> {
    let file = tokio::fs::File::open(path).await;
    let file = file.map_err(|source| FileProblem::Io {
        action: "read",
        path: path.into(),
        source,
    })?;
    let done = done.clone();
    let pieces = ReaderStream::with_capacity(file, PIECE).inspect(move |piece| {
        let length = piece.as_ref().map_or(0, |piece| piece.len());
        done.bytes.fetch_add(length as u64, Ordering::Relaxed);
    });
    let path = [TEMPLATES.as_slice(), &[name, "archive"]].concat();
    let request = call.client.request(Method::PUT, &path);
    let request = request
        .header("content-type", "application/x-tar")
        .body(Body::wrap_stream(pieces));
    let answer = call.client.send(request).await?;
    let body = call.client.body(answer).await?;
    let template = serde_json::from_slice(&body);
    template.map_err(|error| anyhow::Error::from(ClientError::Answer(error)))
}

/// Returns the name of a file up to `.tar`.
fn name_of(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let end = name.rfind(".tar").filter(|at| *at > 0);
    end.map_or(&*name, |end| &name[..end]).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_the_file_names_the_template() {
        for (file, name) in [
            ("a/busybox.tar.zst", "busybox"),
            ("python-3.13.tar", "python-3.13"),
            ("image", "image"),
            (".tar", ".tar"),
        ] {
            assert_eq!(name_of(Path::new(file)), name);
        }
    }
}
