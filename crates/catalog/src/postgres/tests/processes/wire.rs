//! Calls and answers as bytes, between two processes of the same test.
//!
//! JSON does not fit: it cannot tell `None` from `Some(None)`, and a change sets
//! a field to nothing that way.

use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;
use std::time::Duration;

use serde_json::Value;

use crate::error::Result;

/// A value that can be sent.
pub(super) trait Wire: Sized {
    fn put(&self, to: &mut Vec<u8>);

    /// Takes a value off the front. Panics if there is none.
    fn take(from: &mut &[u8]) -> Self;
}

pub(super) fn to_bytes(value: &impl Wire) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.put(&mut bytes);
    bytes
}

/// An argument of a call. The process that carries out the call keeps the value
/// and lends it to the catalog.
pub(super) trait Argument<'a>: Sized {
    type Kept: Wire + 'a;

    fn give(&self, to: &mut Vec<u8>);

    fn lend(kept: &'a Self::Kept) -> Self;
}

impl<'a, T: Wire + 'a> Argument<'a> for &'a T {
    type Kept = T;

    fn give(&self, to: &mut Vec<u8>) {
        (*self).put(to);
    }

    fn lend(kept: &'a T) -> Self {
        kept
    }
}

impl<'a, T: Wire + Clone + 'a> Argument<'a> for &'a [T] {
    type Kept = Vec<T>;

    fn give(&self, to: &mut Vec<u8>) {
        self.to_vec().put(to);
    }

    fn lend(kept: &'a Vec<T>) -> Self {
        kept
    }
}

impl<'a> Argument<'a> for &'a str {
    type Kept = String;

    fn give(&self, to: &mut Vec<u8>) {
        (*self).to_owned().put(to);
    }

    fn lend(kept: &'a String) -> Self {
        kept
    }
}

impl<'a> Argument<'a> for &'a [&'a str] {
    type Kept = Vec<String>;

    fn give(&self, to: &mut Vec<u8>) {
        let texts: Vec<String> = self.iter().copied().map(str::to_owned).collect();
        texts.put(to);
    }

    // The slice stays in memory until the process ends, which is with its test.
    fn lend(kept: &'a Vec<String>) -> Self {
        Vec::leak(kept.iter().map(String::as_str).collect())
    }
}

impl<'a, T: Argument<'a>> Argument<'a> for Option<T> {
    type Kept = Option<T::Kept>;

    fn give(&self, to: &mut Vec<u8>) {
        self.is_some().put(to);
        if let Some(value) = self {
            value.give(to);
        }
    }

    fn lend(kept: &'a Self::Kept) -> Self {
        kept.as_ref().map(T::lend)
    }
}

/// Arguments that are passed by value.
macro_rules! copied {
    ($($value:ty)*) => {
        $(impl<'a> $crate::postgres::tests::processes::wire::Argument<'a> for $value {
            type Kept = Self;

            fn give(&self, to: &mut Vec<u8>) {
                $crate::postgres::tests::processes::wire::Wire::put(self, to);
            }

            fn lend(kept: &Self) -> Self {
                *kept
            }
        })*
    };
}

/// Structs, with all their fields.
macro_rules! records {
    ($($name:ident { $($field:ident)* })*) => {
        $(impl $crate::postgres::tests::processes::wire::Wire for $name {
            fn put(&self, to: &mut Vec<u8>) {
                let Self { $($field),* } = self;
                $($field.put(to);)*
            }

            fn take(from: &mut &[u8]) -> Self {
                $(let $field = Wire::take(from);)*
                Self { $($field),* }
            }
        })*
    };
}

/// Enums, with all their variants and a number for each.
macro_rules! choices {
    ($($name:ident {
        $($number:literal $variant:ident $(($one:ident))? $({ $($field:ident)* })?)*
    })*) => {
        $(impl $crate::postgres::tests::processes::wire::Wire for $name {
            fn put(&self, to: &mut Vec<u8>) {
                match self {
                    $(Self::$variant $(($one))? $({ $($field),* })? => {
                        to.push($number);
                        $($one.put(to);)?
                        $($($field.put(to);)*)?
                    })*
                }
            }

            fn take(from: &mut &[u8]) -> Self {
                match u8::take(from) {
                    $($number => {
                        $(let $one = Wire::take(from);)?
                        $($(let $field = Wire::take(from);)*)?
                        Self::$variant $(($one))? $({ $($field),* })?
                    })*
                    number => panic!("an unknown variant: {number}"),
                }
            }
        })*
    };
}

/// Values with another form: how a reference becomes the form, and the form the
/// value.
macro_rules! forms {
    ($($name:ty: $form:ty, $to:expr, $of:expr;)*) => {
        $(impl $crate::postgres::tests::processes::wire::Wire for $name {
            fn put(&self, to: &mut Vec<u8>) {
                let form: fn(&Self) -> $form = $to;
                form(self).put(to);
            }

            fn take(from: &mut &[u8]) -> Self {
                let value: fn($form) -> Self = $of;
                value(Wire::take(from))
            }
        })*
    };
}

pub(super) use {choices, copied, forms, records};

macro_rules! numbers {
    ($($number:ty)*) => {
        $(impl Wire for $number {
            fn put(&self, to: &mut Vec<u8>) {
                to.extend(self.to_be_bytes());
            }

            fn take(from: &mut &[u8]) -> Self {
                let (bytes, rest) = from.split_first_chunk().unwrap();
                *from = rest;
                Self::from_be_bytes(*bytes)
            }
        })*
    };
}

numbers!(u8 u16 u32 u64 i64);
copied!(u16 u32 u64 i64 bool Duration);

forms! {
    bool: u8, |value| u8::from(*value), |form| form == 1;
    String: Vec<u8>, |text| text.clone().into_bytes(), |bytes| String::from_utf8(bytes).unwrap();
    Duration: (u64, u32), |time| (time.as_secs(), time.subsec_nanos()),
        |(seconds, nanos)| Duration::new(seconds, nanos);
    Value: String, Value::to_string, |text| serde_json::from_str(&text).unwrap();
}

impl Wire for () {
    fn put(&self, _: &mut Vec<u8>) {}

    fn take(_: &mut &[u8]) -> Self {}
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn put(&self, to: &mut Vec<u8>) {
        self.0.put(to);
        self.1.put(to);
    }

    fn take(from: &mut &[u8]) -> Self {
        let first = A::take(from);
        (first, B::take(from))
    }
}

impl<const N: usize> Wire for [u8; N] {
    fn put(&self, to: &mut Vec<u8>) {
        to.extend(self);
    }

    fn take(from: &mut &[u8]) -> Self {
        let (bytes, rest) = from.split_first_chunk().unwrap();
        *from = rest;
        *bytes
    }
}

impl<T: Wire> Wire for Option<T> {
    fn put(&self, to: &mut Vec<u8>) {
        self.is_some().put(to);
        if let Some(value) = self {
            value.put(to);
        }
    }

    fn take(from: &mut &[u8]) -> Self {
        bool::take(from).then(|| T::take(from))
    }
}

impl<T: Wire> Wire for Result<T> {
    fn put(&self, to: &mut Vec<u8>) {
        self.is_ok().put(to);
        match self {
            Ok(value) => value.put(to),
            Err(error) => error.put(to),
        }
    }

    fn take(from: &mut &[u8]) -> Self {
        match bool::take(from) {
            true => Ok(T::take(from)),
            false => Err(Wire::take(from)),
        }
    }
}

fn put_all<'a, T: Wire + 'a>(values: impl ExactSizeIterator<Item = &'a T>, to: &mut Vec<u8>) {
    (values.len() as u64).put(to);
    values.for_each(|value| value.put(to));
}

fn take_all<T: Wire, C: FromIterator<T>>(from: &mut &[u8]) -> C {
    let count = u64::take(from);
    (0..count).map(|_| T::take(from)).collect()
}

impl<T: Wire> Wire for Vec<T> {
    fn put(&self, to: &mut Vec<u8>) {
        put_all(self.iter(), to);
    }

    fn take(from: &mut &[u8]) -> Self {
        take_all(from)
    }
}

impl<T: Wire + Eq + Hash> Wire for HashSet<T> {
    fn put(&self, to: &mut Vec<u8>) {
        put_all(self.iter(), to);
    }

    fn take(from: &mut &[u8]) -> Self {
        take_all(from)
    }
}

impl<K: Wire + Ord, V: Wire> Wire for BTreeMap<K, V> {
    fn put(&self, to: &mut Vec<u8>) {
        put_all(self.keys(), to);
        put_all(self.values(), to);
    }

    fn take(from: &mut &[u8]) -> Self {
        let keys: Vec<K> = take_all(from);
        keys.into_iter().zip(take_all::<V, Vec<V>>(from)).collect()
    }
}
