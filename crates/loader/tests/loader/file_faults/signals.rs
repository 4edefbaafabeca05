//! The guard's effects on the process: foreign faults keep their handler, and maps can be added and removed. Each test
//! runs itself in a child process, which may die and whose maps are its own.

use crate::file_faults::{Folder, through_the_map};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use wgoose_loader::{LoadError, Model};

const CHILD: &str = "WGOOSE_TEST_CHILD";

/// Runs one test of this binary in a process of its own.
fn child(test: &str) -> ExitStatus {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(CHILD, "1")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("running 1 test"), "{test} was not found: {text}");
    output.status
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Opens a model and reads it while its file is truncated: its guard, and no other, sees the fault.
fn survive_a_fault() -> Model {
    let folder = Folder::new();
    let model = folder.open();
    folder.without_its_end(|| assert!(through_the_map(&model).last().unwrap().iter().all(|&x| x == 0.0)));
    assert!(matches!(model.check_unchanged(), Err(LoadError::Read { .. })));
    model
}

/// Survives a fault of a model's, then reads past the end of a map that is no model's.
#[allow(unsafe_code)]
fn fault_elsewhere() {
    let _model = survive_a_fault();

    let other = Folder::new();
    let file = std::fs::File::open(&other.path).unwrap();
    // SAFETY: the bytes are not relied on.
    let map = unsafe { memmap2::Mmap::map(&file).unwrap() };
    other.truncate(0);
    std::hint::black_box(map[map.len() - 1]);
    unreachable!("read a byte that does not exist");
}

#[test]
fn a_fault_elsewhere_kills() {
    if is_child() {
        fault_elsewhere();
    }
    let status = child("file_faults::signals::a_fault_elsewhere_kills");
    assert_eq!(status.signal(), Some(libc::SIGBUS), "{status}");
}

/// Exit code of a process ended by a handler, plain or with SA_SIGINFO.
const HANDLED: i32 = 42;

#[allow(unsafe_code)]
extern "C" fn plain(signal: libc::c_int) {
    // SAFETY: ends the process.
    unsafe { libc::_exit(if signal == libc::SIGBUS { HANDLED } else { 1 }) }
}

#[allow(unsafe_code)]
extern "C" fn with_info(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: passed on from the system; ends the process.
    unsafe { libc::_exit(if (*info).si_signo == libc::SIGBUS { HANDLED } else { 1 }) }
}

#[allow(unsafe_code)]
fn handle_with(handler: *const (), flags: libc::c_int) {
    // SAFETY: the handler is declared as the flags say, and makes one system call.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as libc::sighandler_t;
        action.sa_flags = flags;
        assert_eq!(libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut()), 0);
    }
}

#[test]
fn a_fault_elsewhere_goes_to_the_handler_before() {
    if is_child() {
        handle_with(plain as *const (), 0);
        fault_elsewhere();
    }
    let status = child("file_faults::signals::a_fault_elsewhere_goes_to_the_handler_before");
    assert_eq!(status.code(), Some(HANDLED), "{status}");
}

#[test]
fn a_handler_before_gets_the_details() {
    if is_child() {
        handle_with(with_info as *const (), libc::SA_SIGINFO);
        fault_elsewhere();
    }
    let status = child("file_faults::signals::a_handler_before_gets_the_details");
    assert_eq!(status.code(), Some(HANDLED), "{status}");
}

#[test]
fn an_ignored_fault_elsewhere_kills() {
    if is_child() {
        handle_with(libc::SIG_IGN as *const (), 0);
        fault_elsewhere();
    }
    let status = child("file_faults::signals::an_ignored_fault_elsewhere_kills");
    assert_eq!(status.signal(), Some(libc::SIGBUS), "{status}");
}

#[test]
#[allow(unsafe_code)]
fn a_signal_sent_by_a_process_kills() {
    if is_child() {
        handle_with(libc::SIG_DFL as *const (), 0);
        let _model = Folder::new().open();
        // SAFETY: a plain system call.
        unsafe { libc::raise(libc::SIGBUS) };
        unreachable!("survived SIGBUS");
    }
    let status = child("file_faults::signals::a_signal_sent_by_a_process_kills");
    assert_eq!(status.signal(), Some(libc::SIGBUS), "{status}");
}

/// One after the other, then more at once than a block of the registry has places: all are guarded, and places are given back.
#[test]
fn maps_come_and_go() {
    if is_child() {
        let folder = Folder::new();
        for _ in 0..1000 {
            folder.open();
        }
        survive_a_fault();
        let models: Vec<Model> = (0..100).map(|_| folder.open()).collect();
        let numbers = through_the_map(&models[0]);
        assert!(models.iter().all(|model| through_the_map(model) == numbers));
        survive_a_fault();
        drop(models);
        survive_a_fault();
        return;
    }
    let status = child("file_faults::signals::maps_come_and_go");
    assert!(status.success(), "{status}");
}
