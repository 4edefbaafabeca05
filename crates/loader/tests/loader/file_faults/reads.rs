//! Reads by position: the bytes of the file, or an error that says what and where.

use crate::file_faults::{Folder, in_file_order};
use proptest::prelude::*;
use std::io;
use std::sync::Arc;
use wgoose_loader::{LoadError, Model, ReadAt};

#[test]
fn weights_are_read_by_many_threads_at_once() {
    let model = Folder::new().open();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let model = &model;
            scope.spawn(move || {
                let mut weights = in_file_order(model);
                let half = weights.len() / 4 * thread;
                weights.rotate_left(half);
                for weight in weights {
                    let view = model.tensor(weight);
                    let mut bytes = vec![0; view.byte_len()];
                    model.read(view.file_range().unwrap(), &mut bytes).unwrap();
                    assert_eq!(bytes, view.contiguous().unwrap(), "{weight}");
                }
            });
        }
    });
    model.check_unchanged().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_read_of_any_range_equals_the_file(start in 0.0..=1.0, len in 0.0..=1.0) {
        thread_local! {
            static OPEN: (Model, Vec<u8>) = {
                let folder = Folder::new();
                (folder.open(), std::fs::read(&folder.path).unwrap())
            };
        }
        OPEN.with(|(model, file)| {
            let start = (file.len() as f64 * start) as usize;
            let end = start + ((file.len() - start) as f64 * len) as usize;
            let mut bytes = vec![0xAA; end - start];
            model.read(start..end, &mut bytes).unwrap();
            prop_assert!(bytes == file[start..end], "bytes {start}..{end}");
            Ok(())
        })?;
    }
}

/// Fails as a disk does.
#[derive(Debug)]
struct Failing(io::ErrorKind);

impl ReadAt for Failing {
    fn read_exact_at(&self, _: &mut [u8], _: u64) -> io::Result<()> {
        Err(io::Error::new(self.0, "the disk is on fire"))
    }
}

#[test]
fn a_read_error_names_file_and_place() {
    let folder = Folder::new();
    // An early end is no truncation where the file is as long as ever.
    for kind in [io::ErrorKind::Other, io::ErrorKind::UnexpectedEof] {
        let model = folder.open().with_reader(Arc::new(Failing(kind)));
        let error = model.read(4096..4100, &mut [0; 4]).unwrap_err();
        let LoadError::Read { path, offset: 4096, source } = &error else { panic!("{error:?}") };
        assert_eq!((path, source.kind()), (&folder.path, kind));
        let text = error.to_string();
        for part in ["model.gguf", "byte 4096", "the disk is on fire", "copy the file again"] {
            assert!(text.contains(part), "{part} in {text}");
        }
        model.check_unchanged().unwrap();
    }
}

#[test]
#[should_panic(expected = "of a file of")]
fn ranges_end_with_the_file() {
    let model = Folder::new().open();
    let end = model.file_len();
    let _ = model.read(end - 1..end + 1, &mut [0; 2]);
}
