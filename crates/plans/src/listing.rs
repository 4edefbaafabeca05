//! All plans that there are, and the one that is meant by a name.

use crate::{Stale, Store, StoreError, changes_since, class_in_name, shipped};
use std::path::{MAIN_SEPARATOR, Path, PathBuf};
use std::time::SystemTime;
use wgoose_kernels::{Catalogue, DeviceFingerprint, Plan, PlanError};

/// A plan by its name.
#[derive(Debug)]
pub struct Listed {
    /// Its name; for a file its path.
    pub name: String,
    /// Where it is.
    pub source: Source,
    /// The plan, or what is wrong with it.
    pub plan: Result<Plan, PlanError>,
}

/// Where a plan is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// In the store.
    Store {
        /// The file.
        path: PathBuf,
        /// When it was written.
        tuned: SystemTime,
    },
    /// In the program.
    Shipped,
    /// In a file named by hand.
    File(PathBuf),
}

/// What a plan is worth on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing has changed since it was tuned.
    Current,
    /// Something has.
    Stale(Vec<Stale>),
    /// This machine has no such GPU.
    OtherDevice,
    /// It is no plan.
    Damaged(String),
}

impl Listed {
    /// What the plan is worth on a machine with these GPUs.
    pub fn standing(&self, devices: &[DeviceFingerprint], catalogue: &Catalogue) -> Standing {
        let plan = match &self.plan {
            Ok(plan) => plan,
            Err(error) => return Standing::Damaged(error.to_string().replace('\n', " ")),
        };
        let here = devices.iter().filter(|here| plan.device.is_same_gpu(here));
        // Of two that differ in their drivers only, the one that it was made for.
        match here.map(|here| changes_since(plan, here, catalogue)).min_by_key(Vec::len) {
            None => Standing::OtherDevice,
            Some(stale) if stale.is_empty() => Standing::Current,
            Some(stale) => Standing::Stale(stale),
        }
    }

    /// What people call the models that it is for, as far as its name and its sizes tell.
    pub fn model_class(&self) -> String {
        let Ok(plan) = &self.plan else { return "?".to_owned() };
        let sizes = || format!("{}x{}", plan.model.layers, plan.model.width);
        class_in_name(&self.name, &plan.device).map_or_else(sizes, str::to_owned)
    }
}

/// The store's plans, then those that ship, each by name.
///
/// # Errors
/// The store cannot be read. A file in it that is no plan is listed as such.
pub fn list(store: Option<&Store>) -> Result<Vec<Listed>, StoreError> {
    let mut all = Vec::new();
    if let Some(store) = store {
        for name in store.names()? {
            // One that was removed meanwhile is not there.
            all.extend(in_store(store, &name)?);
        }
    }
    all.extend(shipped().map(|s| Listed { name: s.name.to_owned(), source: Source::Shipped, plan: s.plan() }));
    Ok(all)
}

/// The plan that is meant: a path (it has a separator, or ends in `.ron`), a name, or a part that only one name has.
///
/// # Errors
/// There is no such plan, there are several, or the store cannot be read.
pub fn look_up(store: Option<&Store>, wanted: &str) -> Result<Listed, StoreError> {
    let path = Path::new(wanted);
    if wanted.contains(['/', MAIN_SEPARATOR]) || path.extension().is_some_and(|e| e == "ron") {
        return Ok(Listed { name: wanted.to_owned(), source: Source::File(path.to_owned()), plan: Plan::load(path) });
    }
    let stored = store.map_or_else(|| Ok(Vec::new()), Store::names)?;
    let names: Vec<&str> = stored.iter().map(String::as_str).chain(shipped().map(|s| s.name)).collect();
    let matching = |name: &&&str| !wanted.is_empty() && name.contains(wanted);
    let name = match names.iter().find(|name| **name == wanted) {
        Some(name) => *name,
        None => match names.iter().filter(matching).collect::<Vec<_>>()[..] {
            [] => return Err(StoreError::Unknown(wanted.to_owned())),
            [name] => *name,
            ref several => {
                let names = several.iter().map(|name| **name).collect::<Vec<_>>().join(", ");
                return Err(StoreError::Ambiguous { part: wanted.to_owned(), names });
            }
        },
    };
    if let Some(store) = store
        && let Some(listed) = in_store(store, name)?
    {
        return Ok(listed);
    }
    let shipped = shipped().find(|s| s.name == name);
    let shipped = shipped.map(|s| Listed { name: s.name.to_owned(), source: Source::Shipped, plan: s.plan() });
    shipped.ok_or_else(|| StoreError::Unknown(wanted.to_owned()))
}

fn in_store(store: &Store, name: &str) -> Result<Option<Listed>, StoreError> {
    let entry = store.entry(name)?;
    Ok(entry.map(|e| Listed { name: e.name, source: Source::Store { path: e.path, tuned: e.tuned }, plan: e.plan }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;
    use crate::tests::{choice, class, default_plan, device};
    use wgoose_loader::synth::Mix;

    #[test]
    fn a_plan_is_found_by_a_unique_part_of_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path());
        let plan = default_plan("0.1B");
        let names = [Mix::F16, Mix::Q8_0].map(|mix| store.file(&class("0.1B", mix), &plan).unwrap());
        let found = |wanted: &str| look_up(Some(&store), wanted).map(|listed| listed.name);
        assert_eq!(found(&names[0]).unwrap(), names[0]);
        assert_eq!(found(&names[1][names[1].len() - 6..]).unwrap(), names[1]);
        assert_eq!(found("12x768-q8").unwrap(), names[1]);
        assert!(matches!(found("12x768"), Err(StoreError::Ambiguous { .. })));
        assert!(matches!(found("goose"), Err(StoreError::Unknown(_))));
        assert!(matches!(found(""), Err(StoreError::Unknown(_))));
        let ship = shipped().next().unwrap().name;
        assert_eq!(look_up(Some(&store), ship).unwrap().source, Source::Shipped);
        let path = store.path(&names[0]);
        let by_path = look_up(None, path.to_str().unwrap()).unwrap();
        assert_eq!((by_path.source, by_path.plan.unwrap()), (Source::File(path), plan));
        assert!(look_up(None, "missing.ron").unwrap().plan.is_err());
    }

    #[test]
    fn a_listed_plan_has_its_standing() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path());
        let mut plan = default_plan("0.1B");
        plan.choices.push(choice());
        let name = store.file(&class("0.1B", Mix::F16), &plan).unwrap();
        std::fs::write(store.path("broken"), "(schema").unwrap();
        let catalogue = catalogue::embedded();
        let all = list(Some(&store)).unwrap();
        assert_eq!(all.len(), 2 + shipped().count());
        let of = |name: &str| all.iter().find(|listed| listed.name == name).unwrap();
        assert_eq!(of(&name).standing(&[device()], &catalogue), Standing::Current);
        assert_eq!(of(&name).model_class(), "12x768-f16");
        let updated = DeviceFingerprint { driver: "new".into(), ..device() };
        let stale = of(&name).standing(std::slice::from_ref(&updated), &catalogue);
        assert!(matches!(&stale, Standing::Stale(why) if why.len() == 1), "{stale:?}");
        assert_eq!(of(&name).standing(&[updated, device()], &catalogue), Standing::Current, "one of the two");
        let other = DeviceFingerprint { device: 7, ..device() };
        assert_eq!(of(&name).standing(&[other], &catalogue), Standing::OtherDevice);
        assert!(matches!(of("broken").standing(&[device()], &catalogue), Standing::Damaged(_)));
    }
}
