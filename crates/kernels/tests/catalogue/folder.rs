//! Kernels in a folder beside the binary: they take the place of its files or are new variants, and what is wrong with them is
//! said with file and line.

use crate::instances::{small, wide};
use std::path::Path;
use std::sync::Arc;
use wgoose_graph::Format;
use wgoose_kernels::{Catalogue, Differing, Instance, Kernel, KernelError, LibraryError};

const MUL: &str = include_str!("../../../../kernels-wgsl/ops/mul/elements.wgsl");

fn mul() -> Instance {
    small(Format::F16, &[1]).into_iter().find(|i| i.op.name() == "mul").unwrap()
}

fn write(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// The kernel of a variant of `mul`.
fn kernel(catalogue: &Arc<Catalogue>, name: &str) -> Result<Kernel, KernelError> {
    let variant = catalogue.variant("mul", name).unwrap();
    Kernel::new(variant, &mul(), &variant.default_config(), &wide())
}

#[test]
fn an_edited_kernel_is_another_kernel_and_errors_point_at_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = kernel(&Catalogue::embedded(), "elements").unwrap();
    write(folder.path(), "ops/mul/elements.wgsl", MUL);
    let same = Catalogue::with_folder(folder.path()).unwrap();
    assert_eq!(kernel(&same, "elements").unwrap().hash, embedded.hash);
    assert_eq!(same.differing(), []);

    assert!(MUL.contains("a[i] * b[i]"));
    write(folder.path(), "ops/mul/elements.wgsl", &MUL.replace("a[i] * b[i]", "b[i] * a[i]"));
    let edited = Catalogue::with_folder(folder.path()).unwrap();
    let path = "ops/mul/elements.wgsl".to_owned();
    assert_eq!(edited.differing(), [Differing { path: path.clone(), is_new: false, is_used: false }]);
    assert_ne!(kernel(&edited, "elements").unwrap().hash, embedded.hash);
    assert_eq!(edited.differing(), [Differing { path, is_new: false, is_used: true }]);

    write(folder.path(), "ops/mul/elements.wgsl", &MUL.replace("a[i] * b[i]", "a[i] * c[i]"));
    let line = MUL.lines().position(|l| l.contains("a[i] * b[i]")).unwrap() + 1;
    let error = kernel(&Catalogue::with_folder(folder.path()).unwrap(), "elements").unwrap_err();
    assert!(matches!(error, KernelError::Text(_)));
    assert!(error.to_string().starts_with(&format!("ops/mul/elements.wgsl:{line}: ")), "{error}");
}

#[test]
fn a_new_file_is_a_new_variant() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "ops/mul/mine.wgsl", &MUL.replace("a[i] * b[i]", "b[i] * a[i]"));
    let catalogue = Catalogue::with_folder(folder.path()).unwrap();
    assert_eq!(catalogue.variants("mul").len(), Catalogue::embedded().variants("mul").len() + 1);
    assert!(kernel(&catalogue, "mine").unwrap().wgsl.contains("b[i] * a[i]"));
    let path = "ops/mul/mine.wgsl".to_owned();
    assert_eq!(catalogue.differing(), [Differing { path, is_new: true, is_used: true }]);
}

#[test]
fn every_mistake_in_a_file_is_said_with_its_line() {
    let with = |line: &str| MUL.replacen('\n', &format!("\n{line}\n"), 1);
    let cases = [
        (with("// nedes: subgroups"), 2, "nedes"),
        (with("// needs: wings"), 2, "wings"),
        (with("// prune: WG <"), 2, ""),
        (with("#import lib/nowhere"), 2, "lib/nowhere"),
        (MUL.replacen("// idea", "// about", 1), 1, ""),
        (MUL.replace("// grid:", "// girth:"), 2, ""),
    ];
    for (text, line, names) in cases {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "ops/mul/elements.wgsl", &text);
        let error = match Catalogue::with_folder(folder.path()) {
            Err(error) => error.to_string(),
            Ok(catalogue) => kernel(&catalogue, "elements").unwrap_err().to_string(),
        };
        let place = format!("ops/mul/elements.wgsl:{line}: ");
        assert!(error.starts_with(&place) && error.contains(names), "{error}, not {place}{names}\n{text}");
    }
}

#[test]
fn a_wrong_file_costs_a_sweep_its_own_variant_only() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "ops/mul/broken.wgsl", "// idea: nothing\n");
    write(folder.path(), "ops/mul/mine.wgsl", MUL);
    assert!(matches!(Catalogue::with_folder(folder.path()), Err(LibraryError::Text(_))));
    let catalogue = Catalogue::with_folder_in_part(folder.path()).unwrap();
    let broken: Vec<&str> = catalogue.broken().iter().map(|e| &*e.path).collect();
    assert_eq!(broken, ["ops/mul/broken"]);
    assert!(catalogue.variant("mul", "broken").is_none() && kernel(&catalogue, "mine").is_ok());
}

#[test]
fn a_folder_without_kernels_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Catalogue::with_folder(folder.path()), Err(LibraryError::Folder(_))));
    write(folder.path(), "mul/elements.wgsl", MUL);
    let error = Catalogue::with_folder(folder.path()).unwrap_err().to_string();
    assert!(error.contains("ops/OP/"), "{error}");
    assert!(Catalogue::with_folder(&folder.path().join("nowhere")).is_err());
    // A kernel of no op, and one of an op that there is not.
    write(folder.path(), "ops/nop/mine.wgsl", MUL);
    let error = Catalogue::with_folder(folder.path()).unwrap_err().to_string();
    assert!(error.starts_with("ops/nop/mine.wgsl:1: "), "{error}");
}
