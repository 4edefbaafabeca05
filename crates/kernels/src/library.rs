//! The library: every kernel file as it was read, and what was expanded from them so far.

use crate::wgsl::{
    Document, Documents, Files, FolderError, Outline, Reader, Setting, Standing, Text, TextError, reflect, value,
};
use crate::{Facts, Feature, Limits, Precision};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;
use wgoose_graph::Format;

/// What an outline depends on: a file, how each operand is read that it asks for, which imports are chosen.
type Key = (Arc<str>, Vec<Reader>, Vec<Option<String>>);

/// What traits depend on: a file, which imports are chosen.
type TraitsKey = (Arc<str>, Vec<Option<String>>);

/// What facts depend on: the files of an outline, and the text that was made of it.
type FactsKey = (Vec<Arc<str>>, blake3::Hash);

/// Facts that are kept: some megabytes.
const FACTS: usize = 1 << 13;

/// Every kernel file. Read once: a run sees one state of a folder.
#[derive(Debug)]
pub(crate) struct Library {
    files: Files,
    documents: Documents,
    /// Files that cannot be read, by path: nothing is made of them.
    broken: BTreeMap<Arc<str>, TextError>,
    has_folder: bool,
    /// Names of operands and of tuned imports, by file: what its outlines differ in.
    asks: HashMap<Arc<str>, (Vec<String>, Vec<String>)>,
    outlines: Mutex<HashMap<Key, Result<Arc<Outline>, TextError>>>,
    traits: Mutex<HashMap<TraitsKey, Traits>>,
    facts: Mutex<HashMap<FactsKey, Facts>>,
    used: Mutex<BTreeSet<Arc<str>>>,
}

/// What a file has from all that it imports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Traits {
    /// The least precise of what they compute with.
    pub(crate) precision: Precision,
    /// Whether only a plan takes it.
    pub(crate) is_plan_only: bool,
    /// How sums are added up: what its files say, all of them.
    pub(crate) sums: Option<String>,
}

/// Why a folder gives no library.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    /// The folder.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A file in it.
    #[error(transparent)]
    Text(#[from] TextError),
}

/// What files say about the order of sums, taken together.
fn sums(said: &[&str]) -> Option<String> {
    const ITS_OWN: &str = "its own";
    (!said.is_empty() && !said.contains(&ITS_OWN)).then(|| said.join(", "))
}

impl Library {
    /// The files of the binary.
    pub(crate) fn embedded() -> Library {
        Library::read(Files::embedded(), false)
    }

    /// Those, with the files of a folder.
    pub(crate) fn with_folder(folder: &Path) -> Result<Library, FolderError> {
        Ok(Library::read(Files::with_folder(folder)?, true))
    }

    fn read(files: Files, has_folder: bool) -> Library {
        let (mut documents, mut broken) = (Documents::new(), BTreeMap::new());
        for (path, file) in files.iter() {
            match Document::read(path, &file.text) {
                Ok(document) => drop(documents.insert(Arc::clone(path), document)),
                Err(error) => drop(broken.insert(Arc::clone(path), error)),
            }
        }
        let (outlines, traits, facts, used) = Default::default();
        let asks = documents.keys().map(|path| (Arc::clone(path), asks(&documents, path))).collect();
        Library { files, documents, broken, has_folder, asks, outlines, traits, facts, used }
    }

    /// The document at a path.
    pub(crate) fn document(&self, path: &Arc<str>) -> Result<&Document, TextError> {
        let missing = || TextError::at(path, 1, "there is no such file");
        self.documents.get(path).ok_or_else(|| self.broken.get(path).cloned().unwrap_or_else(missing))
    }

    /// The text of a file.
    pub(crate) fn text(&self, path: &Arc<str>) -> Result<&str, TextError> {
        let file = self.files.get(path).ok_or_else(|| TextError::at(path, 1, "there is no such file"))?;
        Ok(&file.1.text)
    }

    /// Whether a file is as in the binary.
    pub(crate) fn is_embedded(&self, path: &str) -> bool {
        self.files.get(path).is_some_and(|(_, file)| file.standing == Standing::Embedded)
    }

    /// Every path.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Arc<str>> {
        self.files.iter().map(|(path, _)| path)
    }

    /// The path of a file, as it is kept.
    pub(crate) fn path(&self, path: &str) -> Option<&Arc<str>> {
        self.files.get(path).map(|(path, _)| path)
    }

    /// Whether a file, or one that it may import, defines a constant of that name.
    pub(crate) fn defines(&self, path: &Arc<str>, name: &str) -> bool {
        let formats: Vec<Format> = Format::all().collect();
        // Files, each with the operand that it is renamed to.
        let mut next: Vec<(String, Option<String>)> = vec![(path.to_string(), None)];
        let mut seen: BTreeSet<(String, Option<String>)> = BTreeSet::new();
        while let Some(file) = next.pop() {
            let (path, operand) = &file;
            let Some(document) = self.documents.get(path.as_str()).filter(|_| !seen.contains(&file)) else { continue };
            if document.defines(name, operand.as_deref()) {
                return true;
            }
            for import in &document.imports {
                for path in import.paths(&formats, &|_| None) {
                    let is_of_operand = self.documents.get(path.as_str()).is_some_and(|file| file.is_of_operand);
                    let inherited = || operand.clone().filter(|_| is_of_operand);
                    let operand = import.operand.clone().or_else(inherited);
                    next.push((path, operand));
                }
            }
            seen.insert(file);
        }
        false
    }

    /// The files that cannot be read.
    pub(crate) fn broken(&self) -> impl Iterator<Item = &TextError> {
        self.broken.values()
    }

    /// A file expanded for operands that are read in some way, and for some choice of its tuned imports.
    pub(crate) fn outline(
        &self,
        path: &Arc<str>,
        reader: &dyn Fn(&str) -> Reader,
        import: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Arc<Outline>, TextError> {
        let (operands, imports) = self.asks.get(path).map_or((&[][..], &[][..]), |(a, b)| (&a[..], &b[..]));
        let readers = operands.iter().map(|operand| reader(operand)).collect();
        let key = (Arc::clone(path), readers, imports.iter().map(|name| import(name)).collect());
        if let Some(known) = self.outlines.lock().get(&key) {
            return known.clone();
        }
        let outline = Outline::new(&self.documents, path, reader, import).map(Arc::new);
        self.outlines.lock().insert(key, outline.clone());
        outline
    }

    /// The facts of a text that was made of an outline. They are kept: naga takes milliseconds for a text, and each
    /// executor makes all of its kernels.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub(crate) fn facts(&self, outline: &Outline, text: &Text) -> Result<Facts, TextError> {
        let key = (outline.files.clone(), blake3::hash(text.text().as_bytes()));
        if let Some(known) = self.facts.lock().get(&key) {
            return Ok(known.clone());
        }
        let facts = reflect(text, outline.precision, &|number| outline.operand(number), &outline.needs)?;
        let mut kept = self.facts.lock();
        if kept.len() >= FACTS {
            kept.clear();
        }
        kept.insert(key, facts.clone());
        Ok(facts)
    }

    /// Notes that a kernel was made of an outline.
    pub(crate) fn uses(&self, outline: &Outline) {
        if self.has_folder {
            self.used.lock().extend(outline.files.iter().cloned());
        }
    }

    /// The files that differ from those of the binary, and which of them kernels were made of.
    pub(crate) fn differing(&self) -> Vec<(Arc<str>, Standing, bool)> {
        let used = self.used.lock();
        let differ = self.files.iter().filter(|(_, file)| file.standing != Standing::Embedded);
        differ.map(|(path, file)| (Arc::clone(path), file.standing, used.contains(path))).collect()
    }

    /// What a file has from its imports, for some choice of the tuned ones.
    pub(crate) fn traits(&self, path: &Arc<str>, import: &dyn Fn(&str) -> Option<String>) -> Traits {
        let imports = self.asks.get(path).map_or(&[][..], |(_, imports)| &imports[..]);
        let key = (Arc::clone(path), imports.iter().map(|name| import(name)).collect());
        if let Some(known) = self.traits.lock().get(&key) {
            return known.clone();
        }
        // A file that is missing is an error where a kernel is made.
        let all = self.closure(path, &[], import).0;
        let documents = || all.iter().filter_map(|path| self.documents.get(*path));
        let traits = Traits {
            precision: documents().filter_map(|document| document.precision).max().unwrap_or_default(),
            is_plan_only: documents().any(|document| document.plan_only.is_some()),
            sums: sums(&documents().filter_map(|document| document.sums.as_deref()).collect::<Vec<_>>()),
        };
        self.traits.lock().insert(key, traits.clone());
        traits
    }

    /// Whether a file, or anything that it may import, needs a device feature.
    pub(crate) fn may_need(&self, path: &Arc<str>, feature: Feature) -> bool {
        let all = self.closure(path, &[], &|_| None).0;
        let needs = |path: &&str| self.documents.get(*path).is_some_and(|document| document.needs.contains(&feature));
        all.iter().any(needs)
    }

    /// Hash of a file and of all that it may import where matrices have these formats, 32 hex digits. It does not cover
    /// comments, but for those that decide something.
    pub(crate) fn source_hash(
        &self,
        path: &Arc<str>,
        formats: &[Format],
        import: &dyn Fn(&str) -> Option<String>,
    ) -> Result<String, TextError> {
        let (all, wrong) = self.closure(path, formats, import);
        wrong.map_or(Ok(()), Err)?;
        let mut hasher = blake3::Hasher::new();
        all.iter().filter_map(|path| self.documents.get(*path)).for_each(|document| document.hash(&mut hasher));
        Ok(hasher.finalize().to_hex()[..32].to_owned())
    }

    /// The paths of a file and of all that it may import, and what is wrong with the first that is.
    fn closure<'a>(
        &'a self,
        path: &str,
        formats: &[Format],
        import: &dyn Fn(&str) -> Option<String>,
    ) -> (BTreeSet<&'a str>, Option<TextError>) {
        let (mut all, mut wrong, mut next) = (BTreeSet::new(), None, vec![path.to_owned()]);
        while let Some(path) = next.pop() {
            let Some((path, _)) = self.files.get(&path) else {
                wrong = wrong.or_else(|| Some(TextError::at(&Arc::from(path), 1, "there is no such file")));
                continue;
            };
            if !all.insert(&**path) {
                continue;
            }
            match self.document(path) {
                // A format may have no file of its own: its kernels are refused.
                Ok(document) => next.extend(document.imports.iter().flat_map(|i| {
                    let paths = i.paths(formats, import).into_iter();
                    paths.filter(|path| self.files.get(path).is_some() || !i.is_of_format())
                })),
                Err(error) => wrong = wrong.or(Some(error)),
            }
        }
        (all, wrong)
    }

    /// The value of a choice of a tunable, where constants of its file are set by the device.
    pub(crate) fn choice_value(&self, path: &Arc<str>, choice: &str, limits: &Limits) -> Option<u32> {
        let outline = self.outline(path, &|_| Reader::Absent, &|_| None).ok()?;
        let device = |name: &str| limits.named(name);
        let setting = Setting { tunables: &[], chosen: &[], op: &|_| None, device: &device };
        value(choice, &outline, &setting).and_then(|n| u32::try_from(n).ok())
    }
}

/// The operands and the tuned imports that the outlines of a file depend on.
fn asks(documents: &Documents, path: &Arc<str>) -> (Vec<String>, Vec<String>) {
    let (mut operands, mut imports, mut next, mut seen) =
        (BTreeSet::new(), BTreeSet::new(), vec![path.to_string()], BTreeSet::new());
    while let Some(path) = next.pop() {
        let Some(document) = documents.get(path.as_str()).filter(|_| seen.insert(path.clone())) else { continue };
        for import in &document.imports {
            if import.binding.is_some() {
                operands.extend(import.operand.clone());
            }
            imports.extend(import.tunable().map(str::to_owned));
            next.extend(import.paths(&[], &|_| None));
        }
    }
    (operands.into_iter().collect(), imports.into_iter().collect())
}
