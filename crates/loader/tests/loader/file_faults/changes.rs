//! Other processes truncate, replace and rewrite the file.

use crate::file_faults::{Folder, in_file_order, through_the_map, write_model};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::time::Duration;
use wgoose_graph::Weight;
use wgoose_loader::{LoadError, Model};

/// Asserts that the file is reported as truncated to `now` bytes.
fn assert_shortened(folder: &Folder, model: &Model, result: Result<(), LoadError>, now: u64) {
    let error = result.unwrap_err();
    let LoadError::Shortened { path, expected, found } = &error else { panic!("{error:?}") };
    assert_eq!((path, *expected as usize, *found), (&folder.path, model.file_len(), now));
    let text = error.to_string();
    for part in ["model.gguf", &expected.to_string(), &found.to_string(), "copy it again"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_truncated_file_is_an_error_of_the_read() {
    let folder = Folder::new();
    let model = folder.open();
    let end = model.file_len();
    folder.truncate(end as u64 - 1);
    model.read(0..end - 1, &mut vec![0; end - 1]).unwrap();
    let result = model.read(end - 2..end, &mut [0; 2]);
    assert_shortened(&folder, &model, result, end as u64 - 1);
    assert_shortened(&folder, &model, model.check_unchanged(), end as u64 - 1);
}

#[test]
fn views_of_a_truncated_file_survive_in_any_thread() {
    for in_thread in [false, true] {
        let folder = Folder::new();
        let model = folder.open();
        let before = through_the_map(&model);
        let cut = model.tensor(in_file_order(&model)[before.len() / 2]).file_offset();
        folder.truncate(cut as u64);
        let after = match in_thread {
            false => through_the_map(&model),
            true => std::thread::scope(|scope| scope.spawn(|| through_the_map(&model)).join().unwrap()),
        };
        let half = before.len() / 2;
        assert_eq!(after[..half], before[..half], "what is still there");
        assert!(after[half..].iter().flatten().all(|&x| x == 0.0), "what is gone reads as zeros");
        assert_ne!(after[half..], before[half..]);
        assert_eq!(through_the_map(&model)[..half], before[..half], "what was there before the fault stays");
        assert_shortened(&folder, &model, model.check_unchanged(), cut as u64);
    }
}

#[test]
fn many_threads_survive_a_truncated_file() {
    let folder = Folder::new();
    let model = folder.open();
    folder.truncate(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| assert!(through_the_map(&model).iter().flatten().all(|&x| x == 0.0)));
        }
    });
    // Nor do the rest of the readers of the map fall.
    model.fingerprint();
    model.vocabulary().unwrap();
    assert_shortened(&folder, &model, model.check_unchanged(), 0);
}

#[test]
fn a_page_that_was_missing_is_not_forgotten() {
    let folder = Folder::new();
    let model = folder.open();
    let view = model.tensor(*in_file_order(&model).last().unwrap());
    folder.without_its_end(|| assert!(view.to_f32().iter().all(|&x| x == 0.0)));

    let error = model.check_unchanged().unwrap_err();
    let LoadError::Read { path, offset, .. } = &error else { panic!("{error:?}") };
    let page = view.file_offset() - *offset as usize;
    assert_eq!(path, &folder.path);
    assert!(page < 1 << 16, "the page of the tensor that was read, not one {page} bytes before it");
}

#[test]
fn a_file_renamed_over_an_open_one_changes_nothing() {
    let folder = Folder::new();
    let model = folder.open();
    let before = fs::read(&folder.path).unwrap();
    let other = folder.path.with_extension("new");
    write_model(&other, 2);
    fs::rename(&other, &folder.path).unwrap();
    assert_ne!(fs::read(&folder.path).unwrap(), before, "the other model took the name");

    let mut bytes = vec![0; before.len()];
    model.read(0..before.len(), &mut bytes).unwrap();
    assert!(bytes == before);
    for weight in Weight::all(model.shape()) {
        let view = model.tensor(weight);
        assert_eq!(view.contiguous().unwrap(), &before[view.file_range().unwrap()], "{weight}");
    }
    model.check_unchanged().unwrap();

    fs::remove_file(&folder.path).unwrap();
    model.check_unchanged().unwrap();
    assert_eq!(model.read(0..4, &mut [0; 4]).ok(), Some(()));
}

#[test]
fn a_file_rewritten_in_place_is_noticed() {
    for longer in [false, true] {
        let folder = Folder::new();
        let model = folder.open();
        let opened = fs::metadata(&folder.path).unwrap();
        let other = folder.path.with_extension("new");
        write_model(&other, 2);
        let mut bytes = fs::read(&other).unwrap();
        assert_eq!(bytes.len(), model.file_len());
        bytes.extend_from_slice(&vec![0; usize::from(longer)]);

        let mut file = OpenOptions::new().write(true).open(&folder.path).unwrap();
        file.write_all(&bytes).unwrap();
        // One of the two suffices: the time where the length is the same, the length where the time is.
        let time = opened.modified().unwrap() + if longer { Duration::ZERO } else { Duration::from_secs(1) };
        file.set_modified(time).unwrap();

        let error = model.check_unchanged().unwrap_err();
        let LoadError::Rewritten { path } = &error else { panic!("{error:?}") };
        assert_eq!(path, &folder.path);
        assert!(error.to_string().contains("write a new file beside it and rename"), "{error}");
    }
}

#[test]
fn devices_and_empty_files_are_refused() {
    let folder = Folder::new();
    let error = Model::open("/dev/null").unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
    File::create(&folder.path).unwrap();
    let refused = Model::open(&folder.path).unwrap_err().into_reason();
    assert!(matches!(refused, LoadError::UnknownContainer { .. }), "{refused}");
}
