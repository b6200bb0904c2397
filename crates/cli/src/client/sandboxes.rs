//! Lists sandboxes.

use elevo_api as api;
use reqwest::Method;

use crate::client::call::Call;
use crate::client::paths::SANDBOXES;
use crate::output::format::short_id;
use crate::output::relative_time::relative;
use crate::output::sandbox::sandbox_state;
use crate::output::table::Table;

/// Sandboxes per request.
const PAGE: u32 = 100;

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
    let (mut page, mut seen) = (1, 0);
    loop {
        let request = call.client.request(Method::GET, &SANDBOXES);
        let request = request.query(filters);
        let request = request.query(&[("page", page), ("limit", PAGE)]);
        let list: api::SandboxPage = call.wait(call.client.json(request))?;
        for sandbox in &list.items {
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
        seen += list.items.len() as u64;
        if list.items.is_empty() || seen >= list.total {
            break;
        }
        page += 1;
    }
    if call.output.is_json() {
        return Ok(());
    }
    if seen == 0 {
        call.note("there are no sandboxes; `elevo sandbox create` creates one");
        return Ok(());
    }
    table.print(&mut call.output)
}
