//! Models in several files: every way to name one gives the weights of the model in one file; what does not fit is
//! refused by name.

use crate::model_files::support::gguf::Value;
use crate::model_files::support::shards::{COUNT, Form, dealt, folder, parts, whole, write};
use crate::model_files::support::{TINY, Tensor, checkpoint, open, safetensors};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wgoose_graph::{Format, ModelShape, Weight};
use wgoose_loader::{Container, LoadError, Model, ReadAt};

/// The bytes of a weight, read by position where it is in one piece.
fn bytes(model: &Model, weight: Weight) -> Vec<u8> {
    let view = model.tensor(weight);
    let mut bytes = vec![0; view.byte_len()];
    view.copy_rows(0..view.rows(), &mut bytes);
    if let Some(range) = view.file_range() {
        let mut read = vec![0; bytes.len()];
        model.read(range, &mut read).unwrap();
        assert!(read == bytes, "{weight}");
    }
    bytes
}

fn assert_same(model: &Model, other: &Model) {
    assert_eq!((model.shape(), model.container()), (other.shape(), other.container()));
    for weight in Weight::all(&TINY) {
        assert_eq!(model.tensor(weight).format(), other.tensor(weight).format());
        assert!(bytes(model, weight) == bytes(other, weight), "{weight}");
    }
    assert_eq!(model.vocabulary(), other.vocabulary());
}

#[test]
fn a_sharded_model_has_the_weights_of_the_whole_file() {
    for form in Form::ALL {
        let one = open(&whole(form)).unwrap();
        let folder = folder(form);
        let shards: Vec<PathBuf> = (1..=COUNT).map(|number| folder.path().join(form.shard(number))).collect();
        let index = form.index().map(|name| folder.path().join(name));
        let mut paths = [shards.clone(), vec![folder.path().to_owned()]].concat();
        paths.extend(index.clone());
        for path in &paths {
            let model = Model::open(path).unwrap();
            assert_same(&model, &one);
            assert_eq!(model.path(), path);
            assert_eq!(model.files().collect::<Vec<_>>(), shards);
            model.check_unchanged().unwrap();
        }
        // Numbered shards need no index.
        index.into_iter().for_each(|index| fs::remove_file(index).unwrap());
        assert_same(&Model::open(folder.path()).unwrap(), &one);
        assert_same(&Model::open(&shards[1]).unwrap(), &one);
    }
}

#[test]
fn ranges_across_shards_read_as_one_file() {
    let folder = folder(Form::Gguf);
    let model = Model::open(folder.path()).unwrap();
    let files: Vec<Vec<u8>> = (1..=COUNT).map(|n| fs::read(folder.path().join(Form::Gguf.shard(n))).unwrap()).collect();
    let all = files.concat();
    assert_eq!(model.file_len(), all.len());
    let [first, second] = [files[0].len(), files[0].len() + files[1].len()];
    let ends = [0, 1, first - 1, first, first + 1, second - 7, second, all.len() - 1, all.len()];
    for start in ends {
        for end in ends.into_iter().filter(|end| *end >= start) {
            let mut read = vec![0xAA; end - start];
            model.read(start..end, &mut read).unwrap();
            assert!(read == all[start..end], "{start}..{end}");
        }
    }
    let of = |place| {
        let (path, offset) = model.locate(place);
        (path.file_name().unwrap().to_str().unwrap().to_owned(), offset)
    };
    assert_eq!(of(first - 1), (Form::Gguf.shard(1), first - 1));
    assert_eq!(of(first), (Form::Gguf.shard(2), 0));
    assert_eq!(of(all.len()), (Form::Gguf.shard(3), files[2].len()));

    #[derive(Debug)]
    struct All(Vec<u8>);
    impl ReadAt for All {
        fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
            out.copy_from_slice(&self.0[offset as usize..][..out.len()]);
            Ok(())
        }
    }
    let turned: Vec<u8> = all.iter().map(|byte| !byte).collect();
    let model = model.with_reader(Arc::new(All(turned.clone())));
    let mut read = vec![0; all.len()];
    model.read(0..all.len(), &mut read).unwrap();
    assert!(read == turned, "a reader has the places of all files");
}

#[test]
fn fingerprints_tell_shards_apart() {
    let folder = folder(Form::Safetensors);
    let before = Model::open(folder.path()).unwrap().fingerprint();
    assert_eq!(before, Model::open(folder.path().join(Form::Safetensors.shard(2))).unwrap().fingerprint());
    let last = folder.path().join(Form::Safetensors.shard(3));
    let mut file = fs::read(&last).unwrap();
    *file.last_mut().unwrap() ^= 1;
    fs::write(last, file).unwrap();
    assert_ne!(before, Model::open(folder.path()).unwrap().fingerprint());
}

#[cfg(unix)]
#[test]
fn a_snapshot_of_a_cache_is_read_through_its_links() {
    use std::os::unix::fs::symlink;
    let cache = folder(Form::Safetensors);
    let root = cache.path().join("models--owner--goose");
    let snapshot = root.join("snapshots/0123abcd");
    fs::create_dir_all(&snapshot).unwrap();
    fs::create_dir_all(root.join("blobs")).unwrap();
    let mut names: Vec<String> = (1..=COUNT).map(|number| Form::Safetensors.shard(number)).collect();
    names.extend(Form::Safetensors.index().map(str::to_owned));
    for (i, name) in names.iter().enumerate() {
        fs::rename(cache.path().join(name), root.join(format!("blobs/{i:064x}"))).unwrap();
        symlink(format!("../../blobs/{i:064x}"), snapshot.join(name)).unwrap();
    }
    let one = open(&whole(Form::Safetensors)).unwrap();
    for path in [snapshot.clone(), root.clone(), snapshot.join(&names[1]), snapshot.join(&names[COUNT])] {
        assert_same(&Model::open(path).unwrap(), &one);
    }
    fs::create_dir_all(root.join("snapshots/ffff")).unwrap();
    assert!(refusal(&root).contains("no model in this folder"), "two snapshots, none of them current");
    fs::create_dir_all(root.join("refs")).unwrap();
    fs::write(root.join("refs/main"), "0123abcd\n").unwrap();
    assert_same(&Model::open(&root).unwrap(), &one);
}

#[test]
fn the_only_model_of_a_folder_is_found() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "rwkv7.ST", &whole(Form::Safetensors));
    for other in ["config.json", "README.md", "optimizer.pt", "training_args.bin", "rng_state_0.pth", "vocab.txt"] {
        write(folder.path(), other, b"{}");
    }
    fs::remove_file(folder.path().join("config.json")).unwrap();
    assert_eq!(Model::open(folder.path()).unwrap().container(), Container::Safetensors);

    // Hugging Face's libraries read the first of these two.
    let both = tempfile::tempdir().unwrap();
    write(both.path(), "model.safetensors", &whole(Form::Safetensors));
    write(both.path(), "pytorch_model.bin", b"");
    assert_eq!(Model::open(both.path()).unwrap().container(), Container::Safetensors);
}

/// Why a path is refused.
fn refusal(path: &Path) -> String {
    Model::open(path).map(|_| ()).unwrap_err().to_string()
}

#[test]
fn folders_with_no_or_several_models_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = refusal(folder.path());
    assert!(text.ends_with(
        "': no model in this folder: expected a file that ends in .gguf, .safetensors, .st, .pth or .bin, or an index"
    ));
    for name in ["b.gguf", "a.pth", "c-00001-of-00002.gguf", "c-00001-of-00003.gguf", "d.gguf"] {
        write(folder.path(), name, b"");
    }
    let text = refusal(folder.path());
    let says = "5 models in this folder, name one: 'a.pth', 'b.gguf', 'c.gguf in 2 files', 'c.gguf in 3 files', ...";
    assert!(text.ends_with(says), "{text}");
}

#[test]
fn missing_shards_are_named() {
    for form in Form::ALL {
        let folder = folder(form);
        fs::remove_file(folder.path().join(form.shard(2))).unwrap();
        let says = format!("1 of 3 shards missing: '{}' (download them to the same folder)", form.shard(2));
        for path in [folder.path().to_owned(), folder.path().join(form.shard(1)), folder.path().join(form.shard(2))] {
            assert!(refusal(&path).contains(&says), "{}", refusal(&path));
        }
    }
}

/// Changes a sharded model, and what the refusal says then.
type Mistake = (Form, fn(&Path), &'static str);

const MISTAKES: [Mistake; 13] = [
    (
        Form::Safetensors,
        |at| drop(write(at, "model.safetensors.index.json", b"{\"weight_map\": {\"emb.weight\": 1}}")),
        "model.safetensors.index.json': index of shards: invalid type: integer `1`, expected a string",
    ),
    (
        Form::Safetensors,
        |at| drop(write(at, "model.safetensors.index.json", b"{\"model_type\": \"rwkv7\"}")),
        "JSON without a 'weight_map', which an index of shards has: name the model's file, or its folder",
    ),
    (
        Form::Safetensors,
        |at| drop(write(at, "model.safetensors.index.json", b"{\"weight_map\": {}}")),
        "the 'weight_map' of the index lists no tensor: download it again",
    ),
    (
        Form::Safetensors,
        |at| drop(write(at, "model.safetensors.index.json", b"{\"weight_map\": {\"a\": \"../b.st\"}}")),
        "the index calls a shard '../b.st': expected the name of a file in its folder",
    ),
    (
        Form::Safetensors,
        |at| {
            let index = fs::read_to_string(at.join("model.safetensors.index.json")).unwrap();
            let index = index.replacen(
                "{\"blocks.0.",
                "{\"blocks.0.att.x_q\":\"model-00001-of-00003.safetensors\",\"blocks.0.",
                1,
            );
            fs::write(at.join("model.safetensors.index.json"), index).unwrap();
        },
        "the index says that tensor 'blocks.0.att.x_q' is in 'model-00001-of-00003.safetensors', which lacks it: the \
         shards are not of one model",
    ),
    (
        Form::Safetensors,
        |at| {
            fs::remove_file(at.join("model.safetensors.index.json")).unwrap();
            fs::copy(at.join("model-00001-of-00003.safetensors"), at.join("model-00003-of-00003.safetensors")).unwrap();
        },
        "is both in 'model-00001-of-00003.safetensors' and in 'model-00003-of-00003.safetensors': the shards are",
    ),
    (
        Form::Safetensors,
        |at| {
            fs::remove_file(at.join("model.safetensors.index.json")).unwrap();
            write(at, "model-00002-of-00003.safetensors", &whole(Form::Gguf));
        },
        "'model-00002-of-00003.safetensors' is GGUF, the shards before it are safetensors: they are not of one model",
    ),
    (
        Form::Safetensors,
        |at| drop(write(at, "model-00002-of-00003.safetensors", b"version https://git-lfs.github.com/spec/v1\n")),
        "model-00002-of-00003.safetensors': a git-lfs pointer",
    ),
    (
        Form::Safetensors,
        |at| {
            let wider = checkpoint(&ModelShape { width: 128, ..TINY }, Format::F16, false);
            write(at, &Form::Safetensors.shard(2), &safetensors::write(&dealt(&wider)[1]));
        },
        "model-00002-of-00003.safetensors': tensor 'blocks.0.ln0.weight' at byte ",
    ),
    (
        Form::Gguf,
        |at| {
            fs::copy(at.join(Form::Gguf.shard(2)), at.join(Form::Gguf.shard(3))).unwrap();
        },
        "'goose-F16-00003-of-00003.gguf' says that it is part 2 of 3, its name says otherwise: the parts are",
    ),
    (
        Form::Gguf,
        |at| drop(write(at, &Form::Gguf.shard(3), &whole(Form::Gguf))),
        "'goose-F16-00003-of-00003.gguf' has no key 'split.count': it is no part of a split GGUF file",
    ),
    (
        Form::Gguf,
        |at| {
            let mut part = parts().swap_remove(0);
            part.set("split.tensors.count", Value::U32(4));
            write(at, &Form::Gguf.shard(1), &part.write());
        },
        "key 'split.tensors.count' says 4, the parts have ",
    ),
    (
        Form::Gguf,
        |at| {
            (1..COUNT).for_each(|number| fs::remove_file(at.join(Form::Gguf.shard(number))).unwrap());
            fs::rename(at.join(Form::Gguf.shard(COUNT)), at.join("goose.gguf")).unwrap();
        },
        "part 3 of 3 of a split GGUF file, whose name does not say so: rename the parts to NAME-00003-of-00003.gguf",
    ),
];

#[test]
fn shards_of_different_models_are_refused_by_name() {
    for (form, mistake, says) in MISTAKES {
        let folder = folder(form);
        mistake(folder.path());
        let text = refusal(folder.path());
        assert!(text.contains(says), "'{text}' does not say '{says}'");
    }
}

#[test]
fn a_shard_that_the_index_does_not_list_is_refused() {
    let folder = folder(Form::Safetensors);
    let other = write(folder.path(), "model-00001-of-00002.safetensors", b"");
    let text = refusal(&other);
    assert!(text.ends_with("model.safetensors.index.json' does not list this file: it is a shard of another model"));
    // The index is named where the index is wrong.
    let index = write(folder.path(), "model.safetensors.index.json", b"{");
    let text = refusal(&other);
    assert!(text.contains(&format!("'{}': index of shards: EOF", index.display())), "{text}");
}

#[test]
fn a_wrong_tensor_is_named_with_its_shard() {
    let folder = folder(Form::Gguf);
    let mut second = parts().swap_remove(1);
    let name = second.tensors[1].name.clone();
    second.tensors[1] = Tensor::new(&name, Format::F32, &[3, 5], &[0.0; 15]);
    write(folder.path(), &Form::Gguf.shard(2), &second.write());
    let error = Model::open(folder.path()).map(|_| ()).unwrap_err();
    let LoadError::Content { path, source } = &error else { panic!("{error:?}") };
    assert_eq!(path, &folder.path().join(Form::Gguf.shard(2)));
    let LoadError::WrongShape { tensor, offset, .. } = &**source else { panic!("{error:?}") };
    let len = fs::metadata(path).unwrap().len() as usize;
    assert!(*tensor == name && *offset < len, "an offset in the shard: {error}");
}
