//! The catalogue: the variants of each op, from a scan of `kernels-wgsl/` and of a folder beside it.

use crate::heuristics::Heuristics;
use crate::library::{Library, LibraryError};
use crate::wgsl::{Standing, TextError};
use crate::{Config, Instance, Kernel, KernelError, Limits, Variant, ops};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

/// Every variant of every op.
#[derive(Clone, Debug)]
pub struct Catalogue {
    library: Arc<Library>,
    /// By op; those that are tried without a plan first, in their order.
    of_op: BTreeMap<&'static str, Vec<Variant>>,
    /// What is wrong with files that give no variant.
    broken: Vec<TextError>,
    /// Whether a file that is wrong costs only the variants that need it.
    in_part: bool,
    /// By op, the only variant that serves it.
    forced: BTreeMap<&'static str, Forced>,
}

/// A variant that serves its op, whatever plans say.
#[derive(Clone, Debug)]
struct Forced {
    variant: String,
    is_used: Arc<AtomicBool>,
}

/// Why a name is of no variant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSuchVariant {
    /// No op has the name.
    #[error("there is no op '{op}': the ops are {known}")]
    Op {
        /// The name.
        op: String,
        /// Those that there are.
        known: String,
    },
    /// The op has no such variant.
    #[error("{op} has no variant '{variant}': it has {known}")]
    Variant {
        /// The op.
        op: String,
        /// The name.
        variant: String,
        /// Those that it has.
        known: String,
    },
}

impl NoSuchVariant {
    /// The op of that name, as it is known here.
    ///
    /// # Errors
    /// There is none.
    pub fn unless_op(name: &str) -> Result<&'static str, NoSuchVariant> {
        let known = || ops::ALL.iter().map(|op| op.name);
        let none = || NoSuchVariant::Op { op: name.to_owned(), known: known().collect::<Vec<_>>().join(", ") };
        known().find(|known| *known == name).ok_or_else(none)
    }
}

/// A file of a folder that is not as in the binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Differing {
    /// Path below the folder, with `.wgsl`.
    pub path: String,
    /// Whether the binary has no such file.
    pub is_new: bool,
    /// Whether a kernel was made of it.
    pub is_used: bool,
}

impl Catalogue {
    /// That of the binary, without speed heuristics: `wgoose_plans::catalogue` has those.
    ///
    /// # Panics
    /// If a file of the binary cannot be read: a bug that every test finds.
    pub fn embedded() -> Arc<Catalogue> {
        static EMBEDDED: LazyLock<Arc<Catalogue>> = LazyLock::new(|| {
            let read = Catalogue::of(Library::embedded()).sound();
            read.unwrap_or_else(|e| panic!("a kernel of this program is wrong: {e}"))
        });
        Arc::clone(&EMBEDDED)
    }

    /// That of the binary, where files of a folder, laid out like `kernels-wgsl/`, take the place of others or are new.
    ///
    /// # Errors
    /// The folder, or a file in it that is wrong.
    pub fn with_folder(folder: &Path) -> Result<Arc<Catalogue>, LibraryError> {
        Ok(Catalogue::of(Library::with_folder(folder)?).sound()?)
    }

    /// As [`Catalogue::with_folder`], but a file that is wrong costs only the variants that need it, and others are the
    /// defaults in their places: for sweeps, which go on without them and say so.
    ///
    /// # Errors
    /// The folder.
    pub fn with_folder_in_part(folder: &Path) -> Result<Arc<Catalogue>, LibraryError> {
        Ok(Arc::new(Catalogue { in_part: true, ..Catalogue::of(Library::with_folder(folder)?) }))
    }

    fn of(library: Library) -> Catalogue {
        let library = Arc::new(library);
        let mut of_op: BTreeMap<&'static str, Vec<Variant>> = BTreeMap::new();
        let mut broken: Vec<TextError> = library.broken().filter(|e| !e.path.starts_with("ops/")).cloned().collect();
        for path in library.paths().filter(|path| path.starts_with("ops/")) {
            let variant = match Variant::new(&library, path) {
                Ok(variant) => variant,
                Err(error) => {
                    broken.push(error);
                    continue;
                }
            };
            let mut ops = ops::ALL.iter().filter(|op| op.folder == variant.folder()).peekable();
            if ops.peek().is_none() {
                broken.push(TextError::at(path, 1, format!("there is no op with kernels in ops/{}", variant.folder())));
            }
            ops.for_each(|op| of_op.entry(op.name).or_default().push(variant.clone()));
        }
        for (op, variants) in &mut of_op {
            variants.sort_by_key(|v| v.default_place(op).unwrap_or(u32::MAX));
        }
        Catalogue { library, of_op, broken, in_part: false, forced: BTreeMap::new() }
    }

    /// The same, where speed heuristics prune configurations.
    #[must_use]
    pub fn with_heuristics(&self, heuristics: &Arc<Heuristics>) -> Catalogue {
        let guided = |variants: &Vec<Variant>| variants.iter().map(|v| v.with_heuristics(heuristics)).collect();
        let of_op = self.of_op.iter().map(|(op, variants)| (*op, guided(variants))).collect();
        Catalogue { of_op, ..self.clone() }
    }

    fn sound(self) -> Result<Arc<Catalogue>, TextError> {
        match self.broken.first() {
            Some(error) => Err(error.clone()),
            None => Ok(Arc::new(self)),
        }
    }

    /// What is wrong with files that give no variant; empty but for [`Catalogue::with_folder_in_part`].
    pub fn broken(&self) -> &[TextError] {
        &self.broken
    }

    /// The variants of the op of that name, those that are tried without a plan first; none if there is no such op.
    pub fn variants(&self, op: &str) -> &[Variant] {
        self.of_op.get(op).map_or(&[], Vec::as_slice)
    }

    /// One of them by its name.
    pub fn variant(&self, op: &str, name: &str) -> Option<&Variant> {
        self.variants(op).iter().find(|v| v.name() == name)
    }

    /// One of them by a name that somebody gives.
    ///
    /// # Errors
    /// The op has no such variant.
    pub fn named(&self, op: &str, variant: &str) -> Result<&Variant, NoSuchVariant> {
        let known = || self.variants(op).iter().map(Variant::name).collect::<Vec<_>>().join(", ");
        let none = || NoSuchVariant::Variant { op: op.to_owned(), variant: variant.to_owned(), known: known() };
        self.variant(op, variant).ok_or_else(none)
    }

    /// The same, but that this variant alone serves its op, whatever plans and defaults say: where it is refused
    /// nothing is.
    ///
    /// # Errors
    /// There is no such op or variant.
    pub fn forcing(&self, op: &str, variant: &str) -> Result<Catalogue, NoSuchVariant> {
        let op = NoSuchVariant::unless_op(op)?;
        self.named(op, variant)?;
        let mut forcing = self.clone();
        forcing.forced.insert(op, Forced { variant: variant.to_owned(), is_used: Arc::default() });
        Ok(forcing)
    }

    /// The variants that are forced, as `OP/VARIANT`, and whether a kernel was made of them.
    pub fn forced(&self) -> impl Iterator<Item = (String, bool)> {
        let of = |(op, forced): (&&str, &Forced)| {
            (format!("{op}/{}", forced.variant), forced.is_used.load(Ordering::Relaxed))
        };
        self.forced.iter().map(of)
    }

    /// Whether a variant may serve its op, as far as variants are forced.
    pub(crate) fn allows(&self, op: &str, variant: &str) -> bool {
        self.forced.get(op).is_none_or(|forced| forced.variant == variant)
    }

    /// The variants that are tried without a plan, by their places; the one that is forced, whatever its place.
    pub(crate) fn defaults<'c>(&'c self, op: &'static str) -> impl Iterator<Item = &'c Variant> {
        let is_forced = self.is_forced(op);
        let is_tried = move |variant: &&Variant| match is_forced {
            true => self.allows(op, variant.name()),
            false => variant.default_place(op).is_some(),
        };
        self.variants(op).iter().filter(is_tried)
    }

    /// Whether a configuration that only plans take may be a default here: it is forced.
    pub(crate) fn is_forced(&self, op: &str) -> bool {
        self.forced.contains_key(op)
    }

    /// A variant that an op takes: if it is forced, this is noted.
    pub(crate) fn taken<'c>(&self, op: &str, variant: &'c Variant) -> &'c Variant {
        if let Some(forced) = self.forced.get(op) {
            forced.is_used.store(true, Ordering::Relaxed);
        }
        variant
    }

    /// That the variants of an instance's op whose files differ from the binary's have kernels that compile, be they
    /// chosen or not: an edit that is wrong must not go unseen since another variant is faster.
    ///
    /// # Errors
    /// A file that is wrong; never from [`Catalogue::with_folder_in_part`].
    pub fn check_edited(&self, instance: &Instance, limits: &Limits) -> Result<(), TextError> {
        let first = if self.in_part { None } else { self.edited_wrongly(instance, limits).next() };
        first.map_or(Ok(()), |(_, error)| Err(error))
    }

    /// The variants of an instance's op whose files differ from the binary's, and whose kernels do not compile.
    pub fn edited_wrongly<'a>(
        &'a self,
        instance: &'a Instance,
        limits: &'a Limits,
    ) -> impl Iterator<Item = (&'a Variant, TextError)> {
        let made = |variant: &Variant, config: &Config| {
            let outline = variant.outline(instance, config)?;
            Kernel::of_variant(variant, &outline, instance, config, limits)
        };
        let error = move |variant: &'a Variant| {
            let mut all = variant.configs().into_iter().map(|config| made(variant, &config));
            match all.find(|made| !matches!(made, Err(KernelError::Refused(_)))) {
                Some(Err(KernelError::Text(error))) => Some((variant, error)),
                _ => None,
            }
        };
        let is_edited = |variant: &&Variant| self.is_brought(variant);
        self.variants(instance.op.name()).iter().filter(is_edited).filter_map(error)
    }

    /// An error of a variant's text, unless that costs this variant only.
    ///
    /// # Errors
    /// That; never from [`Catalogue::with_folder_in_part`].
    pub fn unless_in_part(&self, error: TextError) -> Result<(), TextError> {
        if self.in_part { Ok(()) } else { Err(error) }
    }

    /// The files of the folder beside the binary that are not as in it.
    pub fn differing(&self) -> Vec<Differing> {
        let differing = self.library.differing().into_iter();
        let of = |(path, standing, is_used): (Arc<str>, Standing, bool)| Differing {
            path: format!("{path}.wgsl"),
            is_new: standing == Standing::New,
            is_used,
        };
        differing.map(of).collect()
    }

    /// Whether a variant's own file is not as in the binary.
    pub fn is_brought(&self, variant: &Variant) -> bool {
        !self.library.is_embedded(variant.path())
    }

    /// The text of a file, by its path below the folder, with `.wgsl`.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.library.text(&Arc::from(path.strip_suffix(".wgsl")?)).ok()
    }

    pub(crate) fn library(&self) -> &Arc<Library> {
        &self.library
    }
}
