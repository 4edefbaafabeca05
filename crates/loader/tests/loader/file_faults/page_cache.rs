//! Evicting, fetching and counting pages.

use crate::file_faults::Folder;
use crate::model_files::support::shards::{self, Form};
use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};
use wgoose_loader::Model;
use wgoose_loader::page_cache::{evict, resident};

/// A file larger than usual read-ahead windows, evicted; `None` where temporary files live in memory.
fn large() -> Option<Folder> {
    let folder = Folder::new();
    if lives_in_memory(&folder.path) {
        eprintln!("skipped: the file system of {} lives in memory", folder.path.display());
        return None;
    }
    let mut bytes = std::fs::read(&folder.path).unwrap();
    bytes.resize(64 << 20, 0);
    std::fs::write(&folder.path, bytes).unwrap();
    assert!(resident(&folder.path).unwrap() > 0.9, "just written");
    evict(&folder.path).unwrap();
    assert_eq!(resident(&folder.path).unwrap(), 0.0, "just evicted");
    Some(folder)
}

#[allow(unsafe_code)]
fn lives_in_memory(path: &Path) -> bool {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: a path that ends with zero, and room for the answer.
    let system = unsafe {
        let mut system: libc::statfs = std::mem::zeroed();
        assert_eq!(libc::statfs(path.as_ptr(), &mut system), 0);
        system
    };
    system.f_type == libc::TMPFS_MAGIC
}

#[test]
fn evicted_pages_come_back_as_they_are_read() {
    let Some(folder) = large() else { return };
    let model = Model::open(&folder.path).unwrap();
    let mut half = vec![0; model.file_len() / 2];
    let opened = resident(&folder.path).unwrap();
    assert!(0.0 < opened && opened < 0.3, "the header only: {opened}");
    model.read(0..half.len(), &mut half).unwrap();
    let read = resident(&folder.path).unwrap();
    assert!((0.45..0.8).contains(&read), "half of it and what was read ahead: {read}");
}

#[test]
fn opening_shards_reads_no_tensor() {
    let folder = shards::folder(Form::Gguf);
    let paths: Vec<_> = (1..=shards::COUNT).map(|number| folder.path().join(Form::Gguf.shard(number))).collect();
    if lives_in_memory(&paths[0]) {
        return;
    }
    for path in &paths {
        std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(64 << 20).unwrap();
        evict(path).unwrap();
    }
    let model = Model::open(folder.path()).unwrap();
    let shares = || paths.iter().map(|path| resident(path).unwrap()).collect::<Vec<f64>>();
    let opened = shares();
    assert!(opened.iter().all(|share| *share < 0.3), "the headers only: {opened:?}");
    let second = 64 << 20..128 << 20;
    model.read(second.clone(), &mut vec![0; second.len()]).unwrap();
    let read = shares();
    assert!(read[0] < 0.3 && read[1] > 0.9 && read[2] < 0.3, "the second shard only: {read:?}");
}

#[test]
fn a_hint_fetches_the_whole_range() {
    let Some(folder) = large() else { return };
    let model = Model::open(&folder.path).unwrap();
    // In the background; only a fetch that never ends makes this fail. Where memory is short the system leaves pages out, so that the
    // hint is given again; a hint that covers less than the range leaves the same pages out each time.
    let deadline = Instant::now() + Duration::from_secs(600);
    let mut fetched = 0.0;
    while fetched < 0.9 {
        assert!(Instant::now() < deadline, "fetched only {fetched}");
        model.will_need_range(0..usize::MAX);
        std::thread::sleep(Duration::from_millis(100));
        fetched = resident(&folder.path).unwrap();
    }
}

#[test]
fn counts_of_odd_files() {
    let folder = Folder::new();
    std::fs::write(&folder.path, b"").unwrap();
    assert_eq!(resident(&folder.path).unwrap(), 1.0);
    evict(&folder.path).unwrap();
    std::fs::remove_file(&folder.path).unwrap();
    assert!(evict(&folder.path).is_err() && resident(&folder.path).is_err());
}
