use std::collections::HashMap;
use std::sync::atomic::Ordering;

use clap::Args;
use elevo_api as api;
use reqwest::Method;
use reqwest::header::ACCEPT;

use crate::client::paths::TEMPLATES;
use crate::client::{Call, ClientError, Done, Events, decode};
use crate::output::format;

/// Create a template from an image; pulls it if the engine does not have it.
#[derive(Debug, Args)]
#[command(after_help = "\
The image must have /bin/sh.

Examples:
  elevo template create python:3.11
  elevo template create node:22 --name node --tag javascript --description \"Node 22\"
  elevo template create debian:12 --writable-root       for apt-get install")]
pub(super) struct Create {
    /// The image
    image: String,

    /// Name of the template; by default that of the image
    #[arg(long)]
    name: Option<String>,

    /// Description of the template
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,

    /// Tag of the template; can be repeated
    #[arg(long = "tag", value_name = "WORD")]
    tags: Vec<String>,

    /// Let sandboxes write to the root file system
    #[arg(long)]
    writable_root: bool,
}

pub(super) fn run(call: &mut Call, args: Create) -> anyhow::Result<()> {
    let wish = api::AddTemplate {
        name: args.name.unwrap_or_else(|| args.image.clone()),
        image: Some(args.image),
        description: args.description,
        tags: args.tags,
        writable_root: args.writable_root,
    };
    let done = Done::default();
    let adding = pull(call, &wish, &done);
    let added = call.watch_done("pulling the image", "layers", &done, adding)?;
    match call.output.is_json() {
        true => call.output.value(&added)?,
        false => {
            let (name, size) = (format::first_line(&added.name), format::bytes(added.size));
            call.output.line(format!("Created {name}, {size}"))?;
        }
    }
    Ok(())
}

/// Maximum number of layers counted; an image has at most 127.
const LAYERS: usize = 1000;

async fn pull(
    call: &Call,
    wish: &api::AddTemplate,
    done: &Done,
) -> crate::client::Result<api::Template> {
    let request = call.client.request(Method::POST, &TEMPLATES).json(wish);
    let request = request.header(ACCEPT, "text/event-stream, application/json");
    let answer = call.client.send(request).await?;
    let mut events = Events::new(&call.client, answer);
    let mut layers: HashMap<String, u64> = HashMap::new();
    while let Some(event) = events.next().await? {
        match decode(&event)? {
            api::PullEvent::Progress { layer, current, .. } if layers.len() < LAYERS => {
                let known = layers.entry(layer).or_default();
                *known = current.max(*known);
                let bytes = layers.values().sum();
                done.things.store(layers.len() as u64, Ordering::Relaxed);
                done.bytes.store(bytes, Ordering::Relaxed);
            }
            api::PullEvent::Progress { .. } => {}
            api::PullEvent::Done { template } => return Ok(template),
            api::PullEvent::Error { error } => return Err(ClientError::Refused(Box::new(error))),
        }
    }
    Err(ClientError::Stream("a pull that ended without a result"))
}
