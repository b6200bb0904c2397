//! The commands of `elevo webhook`.

mod create;
mod deliveries;
mod ls;
mod replay;
mod rm;
mod rotate;
mod show;

use clap::{Args, Subcommand};

use crate::client::{self, Reach};
use crate::errors::Exit;

/// Manage webhooks, which deliver events by HTTP.
#[derive(Debug, Args)]
#[command(
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
Needs a key with the scope `webhooks`.

Examples:
  elevo webhook create https://example.com/elevo --kind sandbox.error --secret-file hook.key
  elevo webhook ls
  elevo webhook rotate wh-… > hook.key
  elevo webhook deliveries wh-… --state failed
  elevo webhook replay wh-… 4711"
)]
pub(crate) struct Webhook {
    #[command(flatten)]
    pub(crate) reach: Reach,
    #[command(subcommand)]
    command: WebhookCommand,
}

#[derive(Debug, Subcommand)]
enum WebhookCommand {
    Create(create::Create),
    #[command(alias = "list")]
    Ls(ls::Ls),
    Show(show::Show),
    Rotate(rotate::Rotate),
    #[command(alias = "delete")]
    Rm(rm::Rm),
    Deliveries(deliveries::Deliveries),
    Replay(replay::Replay),
}

pub(crate) fn run(webhook: Webhook) -> anyhow::Result<Exit> {
    let done = |()| Exit::Done;
    client::run_on_server(&webhook.reach, |call| match webhook.command {
        WebhookCommand::Create(args) => create::run(call, args).map(done),
        WebhookCommand::Ls(args) => ls::run(call, &args).map(done),
        WebhookCommand::Show(args) => show::run(call, &args).map(done),
        WebhookCommand::Rotate(args) => rotate::run(call, &args).map(done),
        WebhookCommand::Rm(args) => rm::run(call, &args),
        WebhookCommand::Deliveries(args) => deliveries::run(call, &args).map(done),
        WebhookCommand::Replay(args) => replay::run(call, &args).map(done),
    })
}
