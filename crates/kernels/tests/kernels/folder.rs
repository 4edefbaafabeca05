//! Kernels in a folder beside the binary: they take the place of its files or are new variants, and what is wrong with
//! them is said with file and line.

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
fn an_edited_kernel_has_a_new_hash_and_its_errors_name_its_line() {
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
        (with("// prune: WG > 32u   narrow"), 2, "plans/heuristics/"),
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
fn a_file_names_the_declarations_it_requires_of_its_importer() {
    let folder = tempfile::tempdir().unwrap();
    let said = |lib: &str, defined: &str, factor: &str| {
        write(folder.path(), "lib/scaled.wgsl", lib);
        let text = MUL.replacen("#import lib/op", &format!("#import lib/op\n#import lib/scaled\n{defined}"), 1);
        write(folder.path(), "ops/mul/mine.wgsl", &text.replace("a[i] * b[i]", &format!("a[i] * b[i]{factor}")));
        match Catalogue::with_folder(folder.path()) {
            Err(error) => error.to_string(),
            Ok(catalogue) => kernel(&catalogue, "mine").map_or_else(|e| e.to_string(), |_| "nothing".to_owned()),
        }
    };
    let lib = "// What it multiplies with.\n// requires: const SCALE, fn shift\nfn scaled() -> f32 {\n    return SCALE + \
               shift();\n}\n";
    let shift = "fn shift() -> f32 {\n    return 1.0;\n}";
    let both = format!("const SCALE: f32 = 2.0;\n{shift}");
    let unmet = |what: &str| format!("lib/scaled.wgsl:2: requires {what}, which ops/mul/mine.wgsl does not define");
    assert_eq!(said(lib, &both, " * scaled()"), "nothing");
    assert_eq!(said(lib, shift, " * scaled()"), unmet("const SCALE"));
    assert_eq!(said(lib, "const SCALE: f32 = 2.0;", " * scaled()"), unmet("fn shift"));
    let of_another_kind = format!("fn SCALE() -> f32 {{\n    return 2.0;\n}}\n{shift}");
    assert_eq!(said(lib, &of_another_kind, " * scaled()"), unmet("const SCALE"));
    // What nothing reaches requires nothing.
    assert_eq!(said(lib, "", ""), "nothing");

    let misspelt = said(&lib.replace("fn shift\n", "fun shift\n"), &both, " * scaled()");
    assert!(misspelt.starts_with("lib/scaled.wgsl:2: nothing is required as 'fun'"), "{misspelt}");
    let misspelt = said(&lib.replace("requires:", "require:"), &both, " * scaled()");
    assert_eq!(misspelt, "lib/scaled.wgsl:2: there is no directive 'require': did you mean 'requires'?");
}

#[test]
fn edited_comments_keep_the_hash_of_a_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let embedded = Catalogue::embedded();
    let made = |catalogue: &Arc<Catalogue>| kernel(catalogue, "elements").unwrap().hash;
    let seen = "// seen: NVIDIA H200 2.9B F16: 78 % of the roofline (2026-11-29)";
    for (text, is_same) in [
        (MUL.replacen("// idea: ", &format!("{seen}\n// About this kernel.\n// idea: in other words, "), 1), true),
        (MUL.replace("a[i] * b[i];", "a[i] * b[i];    // the product"), true),
        (MUL.replacen("// tune: 64 256", "// tune: 64 128 256", 1), true),
        (MUL.replace("a[i] * b[i]", "a[i]*b[i]"), false),
    ] {
        assert_ne!(text, MUL);
        write(folder.path(), "ops/mul/elements.wgsl", &text);
        let edited = Catalogue::with_folder(folder.path()).unwrap();
        assert_eq!(made(&edited) == made(&embedded), is_same, "{text}");
    }
    write(folder.path(), "ops/mul/elements.wgsl", &MUL.replacen("// idea", "// seen: quick\n// idea", 1));
    let error = Catalogue::with_folder(folder.path()).unwrap_err().to_string();
    assert!(error.starts_with("ops/mul/elements.wgsl:1: cannot read this: '// seen: "), "{error}");
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

/// The error of `mul` with these lines in front of its first statement and behind its head.
fn said_of(statement: &str, declaration: &str) -> String {
    let text = MUL.replacen("const WG", &format!("{declaration}\nconst WG"), 1);
    let text = text.replacen("    let i =", &format!("    {statement}\n    let i ="), 1);
    assert!(text.contains(statement) && text.contains(declaration));
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "ops/mul/elements.wgsl", &text);
    match Catalogue::with_folder(folder.path()) {
        Err(error) => error.to_string(),
        Ok(catalogue) => kernel(&catalogue, "elements").map_or_else(|e| e.to_string(), |_| "nothing".to_owned()),
    }
}

#[test]
fn a_kernel_that_would_kill_the_process_is_refused_beforehand() {
    let many = |count: usize, of: &dyn Fn(usize) -> String| (0..count).map(of).collect::<String>();
    let unrolled = |bound: &str| format!("for (var j = 0u; j < {bound}; j++) {{ // unroll\n    }}");
    let parentheses = |count| format!("{}1u{}", "(".repeat(count), ")".repeat(count));
    let cases: [(&str, String, String, &str); 18] = [
        ("imports of oneself", String::new(), many(3000, &|i| format!("#import lib/op as a{i}\n")), "imports"),
        (
            "tunables",
            String::new(),
            many(12, &|i| format!("const T{i}: u32 = 1u; // tune: 1 2 3 4 5 6 7 8 9\n")),
            "configurations",
        ),
        ("a loop", unrolled("4294967295u"), String::new(), "unroll"),
        (
            "nested loops",
            many(20, &|i| {
                format!("{}for (var j = 0u; j < 1u; j++) {{ // unroll\n", " ".repeat(if i > 0 { i + 4 } else { 0 }))
            }) + &many(20, &|i| format!("{}}}\n", " ".repeat(23 - i))),
            String::new(),
            "nested",
        ),
        ("a bound of many terms", unrolled(&("1u+".repeat(100_000) + "1u")), String::new(), "unroll"),
        ("a bound in parentheses", unrolled(&parentheses(200_000)), String::new(), "unroll"),
        ("parentheses", format!("let q = {};", parentheses(200_000)), String::new(), "tokens"),
        ("terms", format!("let q = {}1u;", "i+".repeat(100_000)), String::new(), "tokens"),
        ("signs", format!("let q = {}1;", "- ".repeat(100_000)), String::new(), "tokens"),
        ("branches", "if true {}".to_owned() + &" else if true {}".repeat(4000), String::new(), "branches"),
        (
            "constants of constants",
            "let q = C0;".to_owned(),
            many(9000, &|i| format!("const C{i}: u32 = C{};\n", i + 1)) + "const C9000: u32 = 1u;",
            "declarations",
        ),
        (
            "workgroup memory past 32 bits",
            "p[0] = 1.0; q[0] = 1.0; r[0] = 1.0; s[0] = 1.0;".to_owned(),
            ["p", "q", "r", "s"].map(|n| format!("var<workgroup> {n}: array<f32, 268435455>;\n")).concat(),
            "bytes",
        ),
        (
            "workgroup memory",
            "p[0] = 1.0; q[0] = 1.0;".to_owned(),
            ["p", "q"].map(|n| format!("var<workgroup> {n}: array<f32, 8000>;\n")).concat(),
            "bytes of workgroup memory",
        ),
        ("a private array", "p[0] = 1.0;".to_owned(), "var<private> p: array<f32, 4000000>;".to_owned(), "bytes"),
        (
            "private arrays",
            "p[0] = q[0];".to_owned(),
            "var<private> p: array<f32, 9000>;\nvar<private> q: array<f32, 9000>;".to_owned(),
            "bytes a thread",
        ),
        ("a local array", "var p: array<f32, 30000>; p[0] = 1.0;".to_owned(), String::new(), "bytes a thread"),
        ("a constant array", "let q = p[1];".to_owned(), "const p = array<f32, 100000000>();".to_owned(), "bytes"),
        (
            "arrays of arrays",
            "var p: A39;".to_owned(),
            "alias A0 = array<f32, 2>;\n".to_owned() + &many(39, &|i| format!("alias A{} = array<A{i}, 2>;\n", i + 1)),
            "too large",
        ),
    ];
    for (what, statement, declaration, why) in cases {
        let said = said_of(&statement, &declaration);
        let is_placed = ["ops/mul/elements.wgsl:", "lib/op.wgsl:", "needs "].iter().any(|at| said.starts_with(at));
        assert!(is_placed && said.contains(why), "{what}: {said:.300}");
    }
    assert_eq!(said_of("if true {}", "const C: u32 = 1u;"), "nothing");
    // Constants that refer to others twice are evaluated once.
    let twice = many(29, &|i| format!("const C{i}: u32 = min(C{0}, C{0});\n", i + 1)) + "const C29: u32 = 1u;";
    assert_eq!(said_of(&unrolled("C0"), &twice), "nothing");
}

#[test]
fn imports_that_nest_too_deep_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for i in 0..900 {
        write(folder.path(), &format!("lib/deep/f{i}.wgsl"), &format!("#import lib/deep/f{}\n", i + 1));
    }
    write(folder.path(), "lib/deep/f900.wgsl", "const DEEP: u32 = 1u;\n");
    write(folder.path(), "ops/mul/elements.wgsl", &MUL.replacen("#import", "#import lib/deep/f0\n#import", 1));
    let error = kernel(&Catalogue::with_folder(folder.path()).unwrap(), "elements").unwrap_err().to_string();
    assert!(error.starts_with("lib/deep/f") && error.contains("deep"), "{error}");
    for i in 0..200 {
        write(folder.path(), &format!("lib/more/f{i}.wgsl"), "");
    }
    let error = Catalogue::with_folder(folder.path()).unwrap_err().to_string();
    assert!(error.contains("more than 1000 files"), "{error}");
}

#[cfg(unix)]
#[test]
fn a_file_that_is_no_text_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ops/mul/elements.wgsl");
    let refused = || match Catalogue::with_folder(folder.path()) {
        Err(LibraryError::Folder(error)) => error.to_string(),
        other => panic!("{other:?}"),
    };
    std::fs::create_dir_all(&path).unwrap();
    assert!(refused().ends_with("it is no ordinary file"), "{}", refused());
    std::fs::remove_dir(&path).unwrap();
    for device in ["/dev/zero", "/dev/tty", "/dev/null"] {
        std::os::unix::fs::symlink(device, &path).unwrap();
        assert!(refused().contains("it is no ordinary file"), "{device}");
        std::fs::remove_file(&path).unwrap();
    }
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    assert!(refused().contains("it is no ordinary file"));
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, vec![b'/'; (1 << 20) + 1]).unwrap();
    assert!(refused().contains("1 MiB"), "{}", refused());
}

#[test]
fn a_kernel_with_an_edited_import_is_not_trusted() {
    let folder = tempfile::tempdir().unwrap();
    assert!(kernel(&Catalogue::embedded(), "elements").unwrap().is_trusted);
    write(folder.path(), "ops/mul/elements.wgsl", MUL);
    assert!(kernel(&Catalogue::with_folder(folder.path()).unwrap(), "elements").unwrap().is_trusted);
    let op = include_str!("../../../../kernels-wgsl/lib/op.wgsl");
    write(folder.path(), "lib/op.wgsl", &format!("{op}\n// Another end.\n"));
    assert!(!kernel(&Catalogue::with_folder(folder.path()).unwrap(), "elements").unwrap().is_trusted);
}

#[test]
fn an_edit_that_is_wrong_is_seen_whichever_variant_is_chosen() {
    let folder = tempfile::tempdir().unwrap();
    // Behind all others, and with a place among the defaults.
    for text in [MUL.replacen("+ tid;", "+ tid", 1), MUL.replacen("lib/op", "lib/opp", 1)] {
        let text = text.replacen("// default: 10", "// default: 99", 1);
        assert_ne!(text, MUL);
        write(folder.path(), "ops/mul/mine.wgsl", &text);
        let catalogue = Catalogue::with_folder(folder.path()).unwrap();
        let error = catalogue.check_edited(&mul(), &wide()).unwrap_err().to_string();
        assert!(error.starts_with("ops/mul/mine.wgsl:"), "{error}");
        assert!(catalogue.differing().iter().all(|file| !file.is_used));
        let in_part = Catalogue::with_folder_in_part(folder.path()).unwrap();
        assert_eq!(in_part.check_edited(&mul(), &wide()), Ok(()));
    }
}

#[test]
fn errors_without_a_place_name_the_kernels_own_file() {
    let said = said_of(&format!("let q = {}1u{};", "abs(".repeat(300), ")".repeat(300)), "");
    assert!(said.starts_with("ops/mul/elements.wgsl:1: "), "{said}");
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
