//! Lists sandboxes.

use elevo_api as api;

use crate::client::call::Call;
use crate::client::pages::pages;
use crate::client::paths::SANDBOXES;
use crate::output::format::short_id;
use crate::output::relative_time::relative;
use crate::output::sandbox::sandbox_state;
use crate::output::table::Table;

/// Prints the sandboxes that a query selects, newest first.
pub(crate) fn print_sandboxes(
    call: &mut Call,
    filters: &[(&str, String)],
    long: bool,
) -> anyhow::Result<()> {
    let mut table = Table::wide(
        &["ID", "NAME", "STATE", "CREATED", "EXPIRES", "TEMPLATE"],
        long,
    );
    let take = |call: &mut Call, sandboxes: Vec<api::Sandbox>| {
        for sandbox in &sandboxes {
            if call.output.is_json() {
                call.output.value(sandbox)?;
                continue;
            }
            let id = match long {
                true => sandbox.id.clone(),
                false => short_id(&sandbox.id),
            };
            table.row([
                id,
                sandbox.name.clone().unwrap_or_else(|| "-".into()),
                sandbox_state(sandbox).into(),
                relative(&sandbox.created_at),
                relative(&sandbox.expires_at),
                sandbox.template.clone(),
            ]);
        }
        Ok(())
    };
    let seen = pages(call, &SANDBOXES, filters, take)?;
    if call.output.is_json() {
        return Ok(());
    }
    if seen == 0 {
        call.note("there are no sandboxes; `elevo sandbox create` creates one");
        return Ok(());
    }
    table.print(&mut call.output)
}
