//! Decimal numbers with exact addition.

use std::cmp::Ordering;

use crate::structured::json::canonical_number;
use crate::structured::node::{Kind, Node};

/// A decimal number: `digits` times ten to the power of `power`. Unless the
/// number is 0, `digits` has no zeros at either end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Number {
    negative: bool,
    digits: String,
    power: i64,
}

/// Maximum absolute power of ten that is written out without an exponent.
const MAX_ZEROS: i64 = 64;

impl Number {
    pub(super) fn zero() -> Self {
        Self {
            negative: false,
            digits: "0".to_owned(),
            power: 0,
        }
    }

    /// Returns the number that a node holds; `None` if the node is not a
    /// number, or its exponent is too large.
    pub(super) fn of(node: &Node<'_>) -> Option<Self> {
        match &node.kind {
            Kind::Scalar(text) => Self::read(text.strip_prefix('n')?),
            Kind::Map(_) | Kind::List(_) => None,
        }
    }

    /// Parses the output of `canonical_number`.
    pub(super) fn read(text: &str) -> Option<Self> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if text == "0" {
            return Some(Self::zero());
        }
        let (digits, power) = text.split_once('e')?;
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        Some(Self {
            negative,
            digits: plain.then(|| digits.to_owned())?,
            power: power.parse().ok()?,
        })
    }

    pub(super) fn plus(&self, other: &Self) -> Option<Self> {
        let power = self.power.min(other.power);
        Self::new(self.whole(power)?.checked_add(other.whole(power)?)?, power)
    }

    pub(super) fn minus(&self, other: &Self) -> Option<Self> {
        let power = self.power.min(other.power);
        Self::new(self.whole(power)?.checked_sub(other.whole(power)?)?, power)
    }

    fn new(whole: i128, power: i64) -> Option<Self> {
        Self::read(&canonical_number(&format!("{whole}e{power}")))
    }

    /// The number as a multiple of ten to the power of `power`.
    fn whole(&self, power: i64) -> Option<i128> {
        let digits: i128 = self.digits.parse().ok()?;
        let zeros = u32::try_from(self.power.checked_sub(power)?).ok()?;
        let whole = if digits == 0 {
            0
        } else {
            digits.checked_mul(10i128.checked_pow(zeros)?)?
        };
        Some(if self.negative { -whole } else { whole })
    }

    /// Writes the number without an exponent.
    pub(super) fn text(&self) -> Option<String> {
        let sign = if self.negative { "-" } else { "" };
        if self.power.abs() > MAX_ZEROS {
            return None;
        }
        let digits = &self.digits;
        Some(if self.power >= 0 {
            format!("{sign}{digits}{}", "0".repeat(self.power as usize))
        } else {
            let fraction = self.power.unsigned_abs() as usize;
            let padded = format!("{digits:0>width$}", width = fraction + 1);
            let (whole, fraction) = padded.split_at(padded.len() - fraction);
            format!("{sign}{whole}.{fraction}")
        })
    }

    /// Sort key of the absolute value; zero is the smallest.
    fn size(&self) -> (bool, i64, &str) {
        let zero = self.digits == "0";
        let length = self.digits.len() as i64;
        (
            !zero,
            if zero {
                0
            } else {
                self.power.saturating_add(length)
            },
            &self.digits,
        )
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        let order = self.size().cmp(&other.size());
        match (self.negative, other.negative) {
            (false, false) => order,
            (true, true) => order.reverse(),
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
        }
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        Number::read(&canonical_number(text)).unwrap()
    }

    #[test]
    fn sums_are_exact() {
        for (one, other, sum) in [
            ("1", "2", "3"),
            ("0.1", "0.2", "0.3"),
            ("1e3", "-1", "999"),
            ("5", "-5.0", "0"),
            ("9007199254740993", "1", "9007199254740994"),
            ("1e20", "1e-9", "100000000000000000000.000000001"),
            ("-0.05", "0", "-0.05"),
        ] {
            let added = number(one).plus(&number(other)).unwrap();
            assert_eq!(added.text().unwrap(), sum);
            assert_eq!(added.minus(&number(other)).unwrap(), number(one));
        }
        assert_eq!(number("1e40").plus(&number("1e-40")), None);
    }

    #[test]
    fn numbers_are_in_order() {
        let ordered = [
            "-1e9", "-10", "-1.5", "0", "0.001", "0.01", "9", "10", "11", "1e9", "1e400",
        ];
        for pair in ordered.windows(2) {
            assert!(number(pair[0]) < number(pair[1]), "{pair:?}");
        }
        assert_eq!(number("-0"), number("0.0"));
    }
}
