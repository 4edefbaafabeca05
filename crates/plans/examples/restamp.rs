//! Stamps the choices of plan files with the kernels as they are now, after an edit that changes no plan: `restamp
//! PLAN..`.
//!
//! A plan whose kernels' files have changed loses their choices. Where the change is known not to matter for speed, its
//! choices and their evidence can stay. The evidence then says that no gate has looked at the kernels as they are now,
//! until `wgoose tune`, for which the stamped plan is the one in use, has measured it again.

use std::error::Error;
use std::path::Path;
use wgoose_kernels::plan::Evidence;
use wgoose_kernels::{Catalogue, Plan};

fn main() -> Result<(), Box<dyn Error>> {
    let catalogue = Catalogue::embedded();
    for path in std::env::args().skip(1) {
        let path = Path::new(&path);
        let plan = Plan::load(path)?;
        let choices = plan.choices.iter().map(|choice| choice.for_key(choice.key.clone(), &catalogue));
        let stamped = Plan { choices: choices.collect::<Result<_, _>>()?, ..plan.clone() };
        if stamped.choices == plan.choices {
            continue;
        }
        let changed = stamped.choices.iter().zip(&plan.choices).filter(|(now, was)| now != was).count();
        let stamped = match plan.evidence {
            Some(evidence) => stamped.with_evidence(Evidence { class: None, ..evidence }),
            None => stamped,
        };
        stamped.save(path)?;
        println!("{}: {changed} of {} choices stamped anew", path.display(), plan.choices.len());
    }
    Ok(())
}
