//! The plan store: a folder with a plan a file, each under the name of its device and model class, its ledger beside
//! it.

use crate::{ModelClass, StoreError, plan_name};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use wgoose_kernels::{Plan, PlanError};

/// A folder of plans. It is made when the first one is filed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    folder: PathBuf,
}

/// A file of the store.
#[derive(Debug)]
pub struct Entry {
    /// Its name, without the extension.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// When it was written, which is when the plan was tuned.
    pub tuned: SystemTime,
    /// The plan, or what is wrong with the file.
    pub plan: Result<Plan, PlanError>,
}

impl Store {
    /// The store in a folder.
    pub fn at(folder: impl Into<PathBuf>) -> Store {
        Store { folder: folder.into() }
    }

    /// The user's store: `plans` in [`wgoose_files::default_data_dir`]. `None` if the user has no home.
    pub fn of_user() -> Option<Store> {
        Some(Store::at(wgoose_files::default_data_dir()?.join("plans")))
    }

    /// The folder. The ledgers are here too, and the references that plans were checked against.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of a name.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.ron"))
    }

    /// The ledger of a name: what was measured for its plan.
    pub fn ledger(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.jsonl"))
    }

    /// Makes the folder.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(&self) -> Result<(), StoreError> {
        fs::create_dir_all(&self.folder).map_err(at(&self.folder))
    }

    /// Files a plan that was tuned on a model of this class in place of the one before, whole or not at all. Returns
    /// its name.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn file(&self, class: &ModelClass, plan: &Plan) -> Result<String, StoreError> {
        let name = plan_name(&plan.device, class);
        plan.save(&self.path(&name))?;
        forgive_missing(fs::remove_file(self.declined(&name))).map_err(at(&self.declined(&name)))?;
        Ok(name)
    }

    /// The entry of a name; `None` if there is none.
    ///
    /// # Errors
    /// The file cannot be looked at. One that is no plan is an entry that says so.
    pub fn entry(&self, name: &str) -> Result<Option<Entry>, StoreError> {
        let path = self.path(name);
        let tuned = match fs::metadata(&path).and_then(|file| file.modified()) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            tuned => tuned.map_err(at(&path))?,
        };
        Ok(Some(Entry { name: name.to_owned(), tuned, plan: Plan::load(&path), path }))
    }

    /// All names, in order.
    ///
    /// # Errors
    /// The folder cannot be read; one that is not there is empty.
    pub fn names(&self) -> Result<Vec<String>, StoreError> {
        let files = match fs::read_dir(&self.folder) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            files => files.map_err(at(&self.folder))?,
        };
        let mut names = Vec::new();
        for file in files {
            let path = file.map_err(at(&self.folder))?.path();
            if path.extension() == Some(OsStr::new("ron"))
                && let Some(name) = path.file_stem().and_then(OsStr::to_str)
            {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Removes a plan and its ledger; returns whether there was one.
    ///
    /// # Errors
    /// A file cannot be removed.
    pub fn remove(&self, name: &str) -> Result<bool, StoreError> {
        let path = self.path(name);
        let was_there = forgive_missing(fs::remove_file(&path)).map_err(at(&path))?;
        let ledger = self.ledger(name);
        forgive_missing(fs::remove_file(&ledger)).map_err(at(&ledger))?;
        Ok(was_there)
    }

    /// Remembers that the user does not want to be asked for a plan of this name again.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn decline(&self, name: &str) -> Result<(), StoreError> {
        self.create()?;
        let path = self.declined(name);
        wgoose_files::replace(&path, |_| Ok(())).map(drop).map_err(at(&path))
    }

    /// Whether [`Store::decline`] was called for that name, and nothing has been filed under it since.
    pub fn has_declined(&self, name: &str) -> bool {
        self.declined(name).exists()
    }

    fn declined(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.declined"))
    }
}

fn at(path: &Path) -> impl Fn(io::Error) -> StoreError + use<> {
    let path = path.to_owned();
    move |source| StoreError::Io { path: path.clone(), source }
}

/// Whether a file was removed: one that is not there need not be.
fn forgive_missing(removed: io::Result<()>) -> io::Result<bool> {
    match removed {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        removed => removed.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{class, default_plan};
    use wgoose_loader::synth::Mix;

    #[test]
    fn a_filed_plan_replaces_its_predecessor() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("new"));
        assert_eq!(store.names().unwrap(), [""; 0]);
        let (plan, class) = (default_plan("0.1B"), class("0.1B", Mix::F16));
        let name = store.file(&class, &plan).unwrap();
        fs::write(store.ledger(&name), "{}").unwrap();
        let newer = Plan { prefill_chunk: 32, ..plan };
        assert_eq!(store.file(&class, &newer).unwrap(), name);
        let entry = store.entry(&name).unwrap().unwrap();
        assert_eq!(entry.plan.unwrap(), newer);
        assert!(entry.tuned.elapsed().unwrap().as_secs() < 60);
        assert_eq!(store.names().unwrap(), [name.as_str()]);
        assert!(store.ledger(&name).exists(), "what was measured stays");
        assert!(store.entry("else").unwrap().is_none());

        assert!(store.remove(&name).unwrap());
        assert!(!store.remove(&name).unwrap());
        assert_eq!(fs::read_dir(store.folder()).unwrap().count(), 0);
    }

    #[test]
    fn a_declined_tuning_is_remembered_until_a_plan_is_filed() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().join("new"));
        let (plan, class) = (default_plan("0.1B"), class("0.1B", Mix::F16));
        let name = plan_name(&plan.device, &class);
        assert!(!store.has_declined(&name));
        store.decline(&name).unwrap();
        assert!(store.has_declined(&name) && store.names().unwrap().is_empty());
        store.file(&class, &plan).unwrap();
        assert!(!store.has_declined(&name));
    }

    /// The readers of one and the same name while two write it, as two processes would: nothing is shared but the
    /// folder.
    #[test]
    fn readers_see_whole_plans_while_two_processes_write() {
        let folder = tempfile::tempdir().unwrap();
        let (plan, class) = (default_plan("0.1B"), class("0.1B", Mix::F16));
        let chunks = [17, 4099];
        let name = Store::at(folder.path()).file(&class, &Plan { prefill_chunk: chunks[0], ..plan.clone() }).unwrap();
        std::thread::scope(|scope| {
            for chunk in chunks {
                let (plan, class, folder) = (Plan { prefill_chunk: chunk, ..plan.clone() }, &class, folder.path());
                scope.spawn(move || {
                    let store = Store::at(folder);
                    for _ in 0..50 {
                        store.file(class, &plan).unwrap();
                    }
                });
            }
            for _ in 0..200 {
                let entry = Store::at(folder.path()).entry(&name).unwrap().unwrap();
                assert!(chunks.contains(&entry.plan.unwrap().prefill_chunk));
            }
        });
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    }
}
