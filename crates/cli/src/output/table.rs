//! Tables whose columns are as wide as their widest cell.

use crate::output::Output;

/// A table whose columns are as wide as their widest cell.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table with a heading.
    pub(crate) fn new(heading: &[&str]) -> Self {
        let heading = heading.iter().map(|text| (*text).to_owned()).collect();
        Self {
            rows: vec![heading],
        }
    }

    /// Adds a row. Makes untrusted text safe to print.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let clean = |cell: String| crate::output::format::first_line(&cell).into_owned();
        self.rows.push(cells.into_iter().map(clean).collect());
    }

    /// Prints the table, with the heading and the first column in bold.
    pub(crate) fn print(&self, output: &mut Output) -> anyhow::Result<()> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or_default();
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for (at, row) in self.rows.iter().enumerate() {
            let mut line = Vec::new();
            for (column, cell) in row.iter().enumerate() {
                let is_last = column + 1 == row.len();
                let padded = match is_last {
                    true => cell.clone(),
                    false => format!("{cell:<width$}  ", width = widths[column]),
                };
                match at == 0 || column == 0 {
                    true => line.extend(output.styled(crate::output::STRONG, padded)),
                    false => line.extend(padded.into_bytes()),
                }
            }
            output.line(line)?;
        }
        Ok(())
    }
}
