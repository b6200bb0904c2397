//! Exports a version of a project as a tar archive, directly from the store.

use std::io::Write;

use elevo_archive::{Export, ExportContent};
use elevo_engine::Progress;

use crate::app::access::principal::Principal;
use crate::app::projects::Projects;
use crate::app::projects::project_ref::ProjectRef;
use crate::app::projects::reading::tree_path;
use crate::failure::Result;

impl Projects {
    /// Checks the request, and returns a future that writes a path of a project
    /// as a tar archive, without the paths that are hidden from the principal.
    pub(crate) async fn pack<W: Write + Send + 'static>(
        &self,
        who: &Principal,
        project: &ProjectRef,
        path: &str,
        at: Option<&str>,
        out: W,
    ) -> Result<impl Future<Output = Result<()>> + Send + use<W>> {
        let seen = self.seen(who, project, at).await?;
        let path = tree_path(path)?;
        // Checked before the response begins: after that, a missing path could
        // not become an error response.
        seen.entry(&path).await?;
        let snapshot = seen.repository().snapshot(seen.snapshot).await?;
        let packing = move || {
            let export = Export {
                repository: seen.repository(),
                snapshot: &snapshot,
                path: &path,
                form: &ExportContent::Plain,
                threads: 1,
            };
            let shows = |path: &_, is_directory| seen.shows(path, is_directory);
            export.write(shows, out, &Progress::new())?;
            Ok(())
        };
        let turn = self.stores.shares.packing(who.tenant).await?;
        Ok(turn.run(packing))
    }
}
