//! Checks whether a row exists, without reading its value.
//!
//! Every call of RocksDB that gives a definite result reads the value from its
//! blob file, except for an iterator that loads values on request. The
//! `rocksdb` crate does not have that option yet, so this uses the C interface
//! below it.

use std::ffi::{CStr, c_char};
use std::marker::PhantomData;

use librocksdb_sys as ffi;
use rocksdb::{AsColumnFamilyRef, AsRawPtr, ColumnFamily, DB};

/// Rows of one family, as of the moment when this was created.
pub(crate) struct Rows<'a> {
    iterator: *mut ffi::rocksdb_iterator_t,
    options: *mut ffi::rocksdb_readoptions_t,
    database: PhantomData<&'a DB>,
}

impl<'a> Rows<'a> {
    pub(crate) fn of(db: &'a DB, family: &'a ColumnFamily) -> Self {
        // SAFETY: the database and the family are open for as long as `'a`,
        // which `Self` does not outlive; the options are its own and live
        // until the iterator is destroyed.
        unsafe {
            let options = ffi::rocksdb_readoptions_create();
            ffi::rocksdb_readoptions_set_allow_unprepared_value(options, 1);
            let iterator =
                ffi::rocksdb_create_iterator_cf(db.as_raw_ptr(), options, family.inner());
            Self {
                iterator,
                options,
                database: PhantomData,
            }
        }
    }

    /// Whether the row exists; the error is RocksDB's message.
    pub(crate) fn contain(&mut self, row: &[u8]) -> Result<bool, String> {
        self.seek(row);
        Ok(self.row()? == Some(row))
    }

    /// Moves to the first row at or after `row`.
    pub(crate) fn seek(&mut self, row: &[u8]) {
        // SAFETY: the iterator is open; RocksDB copies `row` before it returns.
        unsafe { ffi::rocksdb_iter_seek(self.iterator, row.as_ptr().cast(), row.len()) }
    }

    /// Returns the current row; `None` at the end.
    pub(crate) fn row(&self) -> Result<Option<&[u8]>, String> {
        // SAFETY: the iterator is open; the key is valid until the iterator
        // moves, which needs a mutable borrow of `self`.
        unsafe {
            if ffi::rocksdb_iter_valid(self.iterator) == 0 {
                return self.status().map(|()| None);
            }
            let mut length = 0;
            let key = ffi::rocksdb_iter_key(self.iterator, &raw mut length);
            Ok(Some(std::slice::from_raw_parts(key.cast::<u8>(), length)))
        }
    }

    /// Moves to the next row. There must be a current row.
    pub(crate) fn next(&mut self) {
        // SAFETY: the iterator is open; beyond the last row it does nothing.
        unsafe {
            if ffi::rocksdb_iter_valid(self.iterator) != 0 {
                ffi::rocksdb_iter_next(self.iterator);
            }
        }
    }

    fn status(&self) -> Result<(), String> {
        let mut error: *mut c_char = std::ptr::null_mut();
        // SAFETY: the iterator is open; an error is a C string that is ours to
        // free, once.
        unsafe {
            ffi::rocksdb_iter_get_error(self.iterator, &raw mut error);
            if error.is_null() {
                return Ok(());
            }
            let words = CStr::from_ptr(error).to_string_lossy().into_owned();
            ffi::rocksdb_free(error.cast());
            Err(words)
        }
    }
}

impl Drop for Rows<'_> {
    fn drop(&mut self) {
        // SAFETY: both were made by `of` and are destroyed once, the iterator
        // before the options it refers to.
        unsafe {
            ffi::rocksdb_iter_destroy(self.iterator);
            ffi::rocksdb_readoptions_destroy(self.options);
        }
    }
}
