//! The results: rows, whether each held its bar, and their output formats.

use std::fmt;

use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, ContentArrangement, Table};
use serde::Serialize;

/// A median and the quartiles around it, in seconds or bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figure {
    pub(crate) median: f64,
    pub(crate) quartiles: (f64, f64),
}

/// The unit in which a row is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Seconds,
    Milliseconds,
    Microseconds,
    Kibibytes,
    Count,
}

impl Unit {
    const fn symbol(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Milliseconds => "ms",
            Self::Microseconds => "µs",
            Self::Kibibytes => "KiB",
            Self::Count => "",
        }
    }

    /// The size of the unit in seconds or bytes.
    const fn size(self) -> f64 {
        match self {
            Self::Seconds => 1.0,
            Self::Milliseconds => 1e-3,
            Self::Microseconds => 1e-6,
            Self::Kibibytes => 1024.0,
            Self::Count => 1.0,
        }
    }
}

/// The goal of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bar {
    /// Our value is at most this, in the row's unit.
    AtMost(f64),
    /// Our value is at most this many times the peer's value.
    AtMostTimes(f64),
    /// The peer's value is at least this many times our value.
    TimesFaster(f64),
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(limit) => write!(f, "at most {limit}"),
            Self::AtMostTimes(limit) => write!(f, "at most {limit} ×"),
            Self::TimesFaster(limit) => write!(f, "at least {limit} × faster"),
        }
    }
}

/// One line of the table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    /// Unique, and without commas, because the closing line lists names.
    pub(crate) name: String,
    pub(crate) unit: Unit,
    pub(crate) ours: Figure,
    pub(crate) peer: Option<(&'static str, Figure)>,
    pub(crate) bar: Option<Bar>,
}

impl Row {
    /// Returns our value divided by the peer's, or the inverse for the bar [`Bar::TimesFaster`].
    fn ratio(&self) -> Option<f64> {
        let (_, peer) = self.peer?;
        let ratio = self.ours.median / peer.median;
        Some(match self.bar {
            Some(Bar::TimesFaster(_)) => 1.0 / ratio,
            _ => ratio,
        })
    }

    /// Whether the bar was reached; `None` without a bar.
    fn held(&self) -> Option<bool> {
        let held = match self.bar? {
            Bar::AtMost(limit) => self.ours.median / self.unit.size() <= limit,
            Bar::AtMostTimes(limit) => self.ratio().is_some_and(|ratio| ratio <= limit),
            Bar::TimesFaster(limit) => self.ratio().is_some_and(|ratio| ratio >= limit),
        };
        Some(held)
    }

    fn bar_text(&self) -> Option<String> {
        self.bar.map(|bar| match bar {
            Bar::AtMost(_) => format!("{bar} {}", self.unit.symbol()),
            _ => bar.to_string(),
        })
    }

    fn record(&self) -> Record<'_> {
        Record {
            name: &self.name,
            ours: self.ours.median / self.unit.size(),
            peer: self.peer.map(|(_, peer)| peer.median / self.unit.size()),
            unit: self.unit.symbol(),
            ratio: self.ratio(),
            bar: self.bar_text(),
            ok: self.held(),
        }
    }

    fn cells(&self) -> [String; 6] {
        let peer = self
            .peer
            .map(|(name, figure)| format!("{name} {}", self.show(figure)));
        let held = self.held().map(|held| if held { "yes" } else { "NO" });
        [
            self.name.clone(),
            self.show(self.ours),
            peer.unwrap_or_default(),
            self.ratio().map(significant).unwrap_or_default(),
            self.bar_text().unwrap_or_default(),
            held.unwrap_or_default().into(),
        ]
    }

    fn show(&self, figure: Figure) -> String {
        let [median, low, high] = [figure.median, figure.quartiles.0, figure.quartiles.1]
            .map(|value| significant(value / self.unit.size()));
        format!("{median} {} ({low}–{high})", self.unit.symbol())
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [name, ours, peer, ratio, bar, held] = self.cells();
        write!(f, "{name}: {ours}")?;
        for (word, text) in [("", peer), ("ratio ", ratio), ("", bar), ("held: ", held)] {
            if !text.is_empty() {
                write!(f, ", {word}{text}")?;
            }
        }
        Ok(())
    }
}

/// A row in the JSON output.
#[derive(Debug, Serialize)]
struct Record<'a> {
    name: &'a str,
    ours: f64,
    peer: Option<f64>,
    unit: &'static str,
    ratio: Option<f64>,
    bar: Option<String>,
    ok: Option<bool>,
}

/// All rows of a run.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) rows: Vec<Row>,
    /// The number of measures that ran, and of all measures, if only a part ran.
    pub(crate) part: Option<(usize, usize)>,
}

impl Report {
    /// Whether there was a bar, and none was missed.
    pub(crate) fn all_held(&self) -> bool {
        let mut bars = self.rows.iter().filter_map(Row::held).peekable();
        bars.peek().is_some() && bars.all(|held| held)
    }

    /// Returns `N of M bars held`, and the rows that missed theirs.
    pub(crate) fn closing_line(&self) -> String {
        let bars = self.rows.iter().filter(|row| row.bar.is_some()).count();
        let missed: Vec<_> = self
            .rows
            .iter()
            .filter(|row| row.held() == Some(false))
            .map(|row| row.name.as_str())
            .collect();
        let mut line = format!("{} of {bars} bars held", bars - missed.len());
        if !missed.is_empty() {
            line += &format!("; not held: {}", missed.join(", "));
        }
        if let Some((run, all)) = self.part {
            line += &format!("; only {run} of {all} measures were run");
        }
        line
    }

    pub(crate) fn json(&self) -> serde_json::Result<String> {
        let records: Vec<_> = self.rows.iter().map(Row::record).collect();
        Ok(serde_json::to_string_pretty(&records)? + "\n")
    }

    /// The report as Markdown, which is also readable in a terminal.
    pub(crate) fn table(&self) -> String {
        let mut table = Table::new();
        table
            .load_style(ASCII_MARKDOWN)
            .set_content_arrangement(ContentArrangement::Disabled)
            .set_header(["measure", "ours", "peer", "ratio", "bar", "held"])
            .add_rows(self.rows.iter().map(Row::cells));
        if let Some(ratio) = table.column_mut(3) {
            ratio.set_cell_alignment(CellAlignment::Right);
        }
        table.trim_fmt()
    }
}

/// Three significant digits, without an exponent.
fn significant(value: f64) -> String {
    let magnitude = value.abs().log10().floor();
    let digits = if magnitude.is_finite() {
        (2.0 - magnitude).clamp(0.0, 6.0) as usize
    } else {
        0
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, ours: f64, peer: Option<f64>, bar: Option<Bar>) -> Row {
        let figure = |median| Figure {
            median,
            quartiles: (median, median),
        };
        Row {
            name: name.into(),
            unit: Unit::Milliseconds,
            ours: figure(ours),
            peer: peer.map(|peer| ("git", figure(peer))),
            bar,
        }
    }

    fn report(rows: Vec<Row>) -> Report {
        Report { rows, part: None }
    }

    #[test]
    fn a_bar_is_held_up_to_and_at_its_limit() {
        for (ours, peer, bar, held) in [
            (0.001, None, Bar::AtMost(1.0), true),
            (0.001_01, None, Bar::AtMost(1.0), false),
            (3.0, Some(2.0), Bar::AtMostTimes(1.5), true),
            (3.1, Some(2.0), Bar::AtMostTimes(1.5), false),
            (1.0, Some(50.0), Bar::TimesFaster(50.0), true),
            (1.0, Some(49.0), Bar::TimesFaster(50.0), false),
        ] {
            let row = row("x", ours, peer, Some(bar));
            assert_eq!(row.held(), Some(held), "{row}");
        }
        assert_eq!(row("x", 1.0, Some(1.0), None).held(), None);
    }

    #[test]
    fn a_bar_without_a_peer_or_a_number_is_not_held() {
        for bar in [Bar::AtMostTimes(1.5), Bar::TimesFaster(2.0)] {
            assert_eq!(row("x", 1.0, None, Some(bar)).held(), Some(false));
            assert_eq!(row("x", f64::NAN, Some(1.0), Some(bar)).held(), Some(false));
        }
        let bar = Some(Bar::AtMost(1.0));
        assert_eq!(row("x", f64::NAN, None, bar).held(), Some(false));
    }

    #[test]
    fn the_closing_line_counts_bars_and_names_those_not_held() {
        let good = row("good", 0.001, None, Some(Bar::AtMost(1.0)));
        let bad = |name| row(name, 0.002, None, Some(Bar::AtMost(1.0)));
        let plain = row("plain", 1.0, None, None);

        let all = report(vec![good.clone(), plain.clone()]);
        assert_eq!(all.closing_line(), "1 of 1 bars held");
        assert!(all.all_held());

        let some = report(vec![bad("b 1"), good.clone(), plain, bad("b 2")]);
        assert_eq!(some.closing_line(), "1 of 3 bars held; not held: b 1, b 2");
        assert!(!some.all_held());
    }

    #[test]
    fn the_closing_line_reports_a_partial_run() {
        let good = row("good", 0.001, None, Some(Bar::AtMost(1.0)));
        let part = Report {
            rows: vec![good],
            part: Some((1, 8)),
        };
        assert_eq!(
            part.closing_line(),
            "1 of 1 bars held; only 1 of 8 measures were run"
        );
        assert!(part.all_held());
    }

    #[test]
    fn a_run_without_bars_has_proved_nothing() {
        assert!(!report(vec![]).all_held());
        assert!(!report(vec![row("x", 1.0, None, None)]).all_held());
    }

    #[test]
    fn json_has_the_same_seven_keys_in_every_row() {
        let report = report(vec![
            row("a", 0.002, Some(0.1), Some(Bar::TimesFaster(50.0))),
            row("b", 0.5, None, Some(Bar::AtMost(1.0))),
            row("c", 0.5, Some(0.25), None),
        ]);
        let json: serde_json::Value = serde_json::from_str(&report.json().unwrap()).unwrap();
        let expected = serde_json::json!([
            {"name": "a", "ours": 2.0, "peer": 100.0, "unit": "ms", "ratio": 50.0,
             "bar": "at least 50 × faster", "ok": true},
            {"name": "b", "ours": 500.0, "peer": null, "unit": "ms", "ratio": null,
             "bar": "at most 1 ms", "ok": false},
            {"name": "c", "ours": 500.0, "peer": 250.0, "unit": "ms", "ratio": 2.0,
             "bar": null, "ok": null},
        ]);
        assert_eq!(json, expected);
    }

    #[test]
    fn the_table_has_a_line_for_each_row() {
        let report = report(vec![row(
            "a b",
            0.002,
            Some(0.1),
            Some(Bar::AtMostTimes(1.5)),
        )]);
        let table = report.table();
        let lines: Vec<_> = table.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("| measure"), "{table}");
        for part in [
            "| a b ",
            "2.00 ms (2.00–2.00)",
            "git 100 ms",
            "0.0200",
            "at most 1.5 ×",
            "yes",
        ] {
            assert!(lines[2].contains(part), "{part} in {table}");
        }
    }

    #[test]
    fn numbers_are_shown_with_three_significant_digits() {
        for (value, text) in [
            (0.012_345, "0.0123"),
            (1.234_5, "1.23"),
            (12.345, "12.3"),
            (12_345.0, "12345"),
            (0.0, "0"),
        ] {
            assert_eq!(significant(value), text);
        }
    }
}
