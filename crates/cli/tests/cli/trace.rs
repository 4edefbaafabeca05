//! `wgoose dev trace`: files that hold what the ops made, and a broken kernel by name.

use crate::binary::{npy, printed, synth, wgoose};
use std::path::Path;

fn folder_with_model() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    synth(folder.path(), "tiny.gguf", "");
    std::fs::write(folder.path().join("tokens.json"), "[5, 6, 7, 8, 9]").unwrap();
    folder
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn outputs_become_files() {
    let folder = folder_with_model();
    let folder = folder.path();
    for backend in ["gpu", "cpu"] {
        let run = |more: &str| {
            let line = format!(
                "dev trace tiny.gguf --tokens tokens.json --backend {backend} --chunk 3 --out {backend} {more}"
            );
            printed(folder, words(&line))
        };
        let said = run("--only head --only att.output");
        // Of both passes: a head each where there are outputs, and att.output in two layers.
        assert!(said.ends_with("5 outputs\n"), "{said}");
        let files = |pass: &str| {
            let mut files: Vec<String> = std::fs::read_dir(folder.join(backend).join(pass))
                .unwrap()
                .map(|f| f.unwrap().file_name().into_string().unwrap())
                .collect();
            files.sort();
            files
        };
        assert_eq!((files("pass-0").len(), files("pass-1").len()), (2, 3));
        let logits = files("pass-1").into_iter().find(|f| f.ends_with("head.npy")).unwrap();
        let (rows, cols, traced) = npy(&folder.join(backend).join("pass-1").join(logits));
        assert_eq!((rows, cols), (1, 320));
        let line = format!("dev logits tiny.gguf --tokens tokens.json --backend {backend} --chunk 3 --out logits.npy");
        printed(folder, words(&line));
        let (_, _, all) = npy(&folder.join("logits.npy"));
        let last = &all[4 * 320..];
        let size = last.iter().map(|x| x * x).sum::<f32>().sqrt();
        let error = traced.iter().zip(last).map(|(a, b)| (a - b) * (a - b)).sum::<f32>().sqrt();
        assert!(error < 1e-4 * size, "{error} of {size}");
        let failed = wgoose(folder, words("dev trace tiny.gguf --tokens tokens.json --out x --only att.kay"));
        let why = String::from_utf8_lossy(&failed.stderr).into_owned();
        assert!(!failed.status.success() && why.contains("att.kay") && why.contains("att.output"), "{why}");
    }
}

#[test]
fn the_first_divergence_is_named() {
    let folder = folder_with_model();
    let folder = folder.path();
    let trace = |more: &str| {
        wgoose(folder, words(&format!("dev trace tiny.gguf --tokens tokens.json --first-divergence {more}")))
    };
    for chunk in ["--chunk 3", "--chunk 1"] {
        let right = trace(chunk);
        assert!(right.status.success(), "{}", String::from_utf8_lossy(&right.stderr));
        assert!(String::from_utf8_lossy(&right.stdout).contains("ops are within their tolerances"));
    }
    let kernel = "ops/embed/elements.wgsl";
    let text = std::fs::read_to_string(Path::new("../../kernels-wgsl").join(kernel)).unwrap();
    assert!(text.contains("y[i] = "));
    std::fs::create_dir_all(folder.join("kernels/ops/embed")).unwrap();
    std::fs::write(folder.join("kernels").join(kernel), text.replace("y[i] = ", "y[i] = 1.01 * ")).unwrap();
    let wrong = trace("--kernels kernels --chunk 3");
    let why = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert_eq!(wrong.status.code(), Some(1));
    assert!(why.contains("pass 0 (tokens 0 to 2): embed (embed/") && why.contains("relative error"), "{why}");
    let no_gpu = trace("--backend cpu");
    assert!(String::from_utf8_lossy(&no_gpu.stderr).contains("no dispatches"));
    assert_eq!(wgoose(folder, words("dev trace tiny.gguf --tokens tokens.json")).status.code(), Some(2));
}
