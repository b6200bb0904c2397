//! The commands of `elevo template`.

use std::collections::HashMap;
use std::sync::atomic::Ordering;

use clap::{Args, Subcommand};
use elevo_api as api;
use reqwest::Method;
use reqwest::header::ACCEPT;

use crate::client::{ClientError, Events, Reach};
use crate::errors::Exit;
use crate::format;
use crate::service::{self, Call, Done, Table, relative};

/// Manage templates: images that sandboxes start from.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
Examples:
  elevo template add python:3.11
  elevo template ls
  elevo sandbox create python:3.11"
)]
pub(crate) struct Template {
    #[command(flatten)]
    pub(crate) reach: Reach,
    #[command(subcommand)]
    command: TemplateCommand,
}

#[derive(Debug, Subcommand)]
enum TemplateCommand {
    /// List templates
    #[command(after_help = "\
Examples:
  elevo template ls
  elevo template ls --json | jq -r .name")]
    Ls,
    Add(Add),
    /// Remove templates; their images stay with the engine
    #[command(after_help = "\
Examples:
  elevo template rm python:3.11")]
    Rm {
        /// The templates
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

/// Add an image as a template; pulls it if the engine does not have it.
#[derive(Debug, Args)]
#[command(after_help = "\
The image must have /bin/sh.

Examples:
  elevo template add python:3.11
  elevo template add node:22 --name node --tag javascript --description \"Node 22\"
  elevo template add debian:12 --writable-root       for apt-get install")]
struct Add {
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

const TEMPLATES: [&str; 3] = ["api", "v1", "templates"];

pub(crate) fn run(template: Template) -> anyhow::Result<Exit> {
    service::run(&template.reach, |call| {
        match template.command {
            TemplateCommand::Ls => ls(call)?,
            TemplateCommand::Add(args) => add(call, args)?,
            TemplateCommand::Rm { names } => {
                return call.delete_all("templates", &names, "Removed");
            }
        }
        Ok(Exit::Done)
    })
}

fn ls(call: &mut Call) -> anyhow::Result<()> {
    let list: api::TemplateList = call.wait(call.client.get(&TEMPLATES))?;
    let mut table = Table::new(&["NAME", "IMAGE", "SIZE", "ROOT", "ADDED", "DESCRIPTION"]);
    for template in &list.items {
        if call.output.is_json() {
            call.output.value(template)?;
            continue;
        }
        let root = if template.writable_root {
            "writable"
        } else {
            "read-only"
        };
        let mut words = template.description.clone().unwrap_or_default();
        if !template.tags.is_empty() {
            words = format!("{words} [{}]", template.tags.join(", "));
        }
        table.row([
            template.name.clone(),
            template.image.clone(),
            format::bytes(template.size),
            root.into(),
            relative(&template.created_at),
            words.trim().to_owned(),
        ]);
    }
    match (call.output.is_json(), list.items.is_empty()) {
        (true, _) => {}
        (false, true) => call.note("there are no templates; `elevo template add IMAGE` adds one"),
        (false, false) => table.print(&mut call.output)?,
    }
    Ok(())
}

fn add(call: &mut Call, args: Add) -> anyhow::Result<()> {
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
            call.output.line(format!("Added {name}, {size}"))?;
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
        match event.read()? {
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
