//! Tables whose columns are as wide as their widest cell.

use crate::output::Output;
use crate::output::format::first_line;

/// Minimum columns of the last cell of a row.
const LEAST: usize = 8;

/// A table whose columns are as wide as their widest cell.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    /// Whether rows may be wider than the terminal.
    is_wide: bool,
}

impl Table {
    /// Creates a table with a heading.
    pub(crate) fn new(heading: &[&str]) -> Self {
        let heading = heading.iter().map(|text| (*text).to_owned()).collect();
        Self {
            rows: vec![heading],
            is_wide: false,
        }
    }

    /// Like [`new`](Self::new). A `wide` table is never cut to the width of the
    /// terminal.
    pub(crate) fn wide(heading: &[&str], wide: bool) -> Self {
        Self {
            is_wide: wide,
            ..Self::new(heading)
        }
    }

    /// Adds a row. Makes untrusted text safe to print.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let clean = |cell: String| first_line(&cell).into_owned();
        self.rows.push(cells.into_iter().map(clean).collect());
    }

    /// Prints the table, with the heading and the first column in bold. On a
    /// terminal, the last column is cut to its width.
    pub(crate) fn print(&self, output: &mut Output) -> anyhow::Result<()> {
        let terminal = match self.is_wide {
            true => None,
            false => output.columns(),
        };
        for (at, row) in self.lines(terminal).iter().enumerate() {
            let mut line = Vec::new();
            for (column, cell) in row.iter().enumerate() {
                match at == 0 || column == 0 {
                    true => line.extend(output.styled(crate::output::STRONG, cell)),
                    false => line.extend(cell.as_bytes()),
                }
            }
            output.line(line)?;
        }
        Ok(())
    }

    /// Returns the padded cells of each row, whose last cells fit into `terminal`
    /// columns.
    fn lines(&self, terminal: Option<usize>) -> Vec<Vec<String>> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let before: usize = widths.iter().rev().skip(1).map(|width| width + 2).sum();
        let room = terminal.map(|columns| columns.saturating_sub(before).max(LEAST));
        let padded = |row: &Vec<String>| {
            let cells = row.iter().enumerate();
            let cells = cells.map(|(column, cell)| match column + 1 == columns {
                true => cut(cell, room),
                false => format!("{cell:<width$}  ", width = widths[column]),
            });
            cells.collect()
        };
        self.rows.iter().map(padded).collect()
    }
}

/// Cuts a text to a number of columns, with an ellipsis at its end.
fn cut(text: &str, room: Option<usize>) -> String {
    match room {
        Some(room) if text.chars().count() > room => {
            let kept = text.chars().take(room.saturating_sub(1));
            kept.chain(['…']).collect()
        }
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_column_is_cut_to_the_terminal() {
        let mut table = Table::new(&["ID", "PATH"]);
        table.row(["a".into(), "0123456789abcdef".into()]);
        table.row(["bc".into(), "short".into()]);
        let lines = |terminal| table.lines(terminal).concat();
        assert_eq!(
            lines(Some(14)),
            ["ID  ", "PATH", "a   ", "012345678…", "bc  ", "short"]
        );
        assert_eq!(lines(None)[3], "0123456789abcdef");
        // A very narrow terminal wraps.
        assert_eq!(lines(Some(3))[3], "0123456…");
    }
}
