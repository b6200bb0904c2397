//! Assertions about errors.

use crate::error::{Error, Kind, Result};

pub(crate) fn assert_exists<T: std::fmt::Debug>(result: Result<T>, kind: Kind) {
    match result {
        Err(Error::Exists { what }) => assert_eq!(what, kind),
        other => panic!("expected `Exists` for the {kind}, got {other:?}"),
    }
}

pub(crate) fn assert_not_found<T: std::fmt::Debug>(result: Result<T>, kind: Kind) {
    match result {
        Err(Error::NotFound { what }) => assert_eq!(what, kind),
        other => panic!("expected `NotFound` for the {kind}, got {other:?}"),
    }
}

pub(crate) fn assert_changed<T: std::fmt::Debug>(result: Result<T>, kind: Kind) {
    match result {
        Err(Error::Changed { what }) => assert_eq!(what, kind),
        other => panic!("expected `Changed` for the {kind}, got {other:?}"),
    }
}

pub(crate) fn assert_being_removed<T: std::fmt::Debug>(result: Result<T>, kind: Kind) {
    match result {
        Err(Error::BeingRemoved { what }) => assert_eq!(what, kind),
        other => panic!("expected `BeingRemoved` for the {kind}, got {other:?}"),
    }
}

pub(crate) fn assert_refused<T: std::fmt::Debug>(result: Result<T>) {
    assert!(
        matches!(result, Err(Error::Refused(_))),
        "expected `Refused`, got {result:?}"
    );
}
