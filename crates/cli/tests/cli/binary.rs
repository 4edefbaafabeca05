//! The built binary, and the files it writes.

use std::path::Path;
use std::process::{Command, Output};

/// Options of a tiny model that covers the single bytes; two heads, four different ranks.
const TINY: &str = "--layers 2 --width 128 --ffn 256 --vocab 320 --ranks 32,24,16,48";

/// Makes a tiny model in the folder.
pub(crate) fn synth(folder: &Path, name: &str, more: &str) {
    printed(folder, format!("dev synth {name} {TINY} {more}").split_whitespace());
}

/// Runs `wgoose` in a folder, with its store of plans in `data/plans` there.
pub(crate) fn wgoose<S: AsRef<std::ffi::OsStr>>(folder: &Path, args: impl IntoIterator<Item = S>) -> Output {
    // Mesa complains on stderr where the desktop's folder is not set.
    let mut command = Command::new(env!("CARGO_BIN_EXE_wgoose"));
    command.args(args).current_dir(folder).env("XDG_RUNTIME_DIR", folder).env_remove("RUST_LOG");
    command.env("WGOOSE_DATA_DIR", folder.join("data")).output().unwrap()
}

/// Runs `wgoose`, which must succeed; what it printed.
#[track_caller]
pub(crate) fn printed<S: AsRef<std::ffi::OsStr>>(folder: &Path, args: impl IntoIterator<Item = S>) -> String {
    let output = wgoose(folder, args);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The stderr of a command without the lines that name its plan.
pub(crate) fn said(output: Output) -> String {
    let stderr = String::from_utf8(output.stderr).unwrap();
    stderr.split_inclusive('\n').filter(|line| !line.starts_with("plan: ")).collect()
}

/// Reads a float32 matrix from .npy (format 1.0): rows, columns, numbers.
pub(crate) fn npy(path: &Path) -> (usize, usize, Vec<f32>) {
    let file = std::fs::read(path).unwrap();
    assert_eq!(&file[..8], b"\x93NUMPY\x01\x00");
    let data = 10 + usize::from(u16::from_le_bytes([file[8], file[9]]));
    assert_eq!(data % 64, 0);
    let header = std::str::from_utf8(&file[10..data]).unwrap();
    assert!(header.contains("'descr': '<f4', 'fortran_order': False"), "{header}");
    let sizes = header.split_once("'shape': (").unwrap().1.split_once(')').unwrap().0;
    let sizes: Vec<usize> = sizes.split(", ").map(|n| n.parse().unwrap()).collect();
    let numbers = file[data..].chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect::<Vec<_>>();
    assert_eq!(numbers.len(), sizes[0] * sizes[1]);
    (sizes[0], sizes[1], numbers)
}

/// Root mean square of the difference over that of what is wanted.
pub(crate) fn deviation(got: &[f32], want: &[f32]) -> f64 {
    assert_eq!(got.len(), want.len());
    let square = |x: f64| x * x;
    let difference: f64 = got.iter().zip(want).map(|(g, w)| square(f64::from(*g) - f64::from(*w))).sum();
    let size: f64 = want.iter().map(|w| square(f64::from(*w))).sum();
    (difference / size).sqrt()
}
