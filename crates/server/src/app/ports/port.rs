//! The number of a port.

use std::fmt;
use std::str::FromStr;

use crate::failure::{Failure, short};

/// The number of a TCP port, 1 to 65535.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Port(u16);

impl Port {
    pub(crate) fn number(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Port {
    type Err = Failure;

    /// Reads digits without a sign and without leading zeros, so that each port
    /// has one spelling.
    fn from_str(text: &str) -> Result<Self, Failure> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
        match text.parse() {
            Ok(number) if is_plain => Ok(Self(number)),
            _ => Err(Failure::invalid(format!(
                "`{}` is not a port; use a number from 1 to 65535",
                short(text)
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_one_spelling() {
        assert_eq!("3000".parse::<Port>().unwrap().number(), 3000);
        assert_eq!("65535".parse::<Port>().unwrap().number(), 65535);
        for wrong in ["", "0", "03000", "+3000", "-1", "65536", " 80", "8o", "٣"] {
            assert!(wrong.parse::<Port>().is_err(), "{wrong:?}");
        }
    }
}
