//! The list of ops and variants.

use crate::failure::Failure;
use wgoose_kernels::{Catalogue, ops};

/// Every variant of every op, in the order in which they are tried without a plan.
pub(super) fn list(catalogue: &Catalogue) -> Result<(), Failure> {
    let differing = catalogue.differing();
    for op in ops::ALL {
        outln!("{}", op.name);
        for variant in catalogue.variants(op.name) {
            let file = differing.iter().find(|file| file.path.strip_suffix(".wgsl") == Some(variant.path()));
            let standing = match file {
                Some(file) if file.is_new => " (new)",
                Some(_) => " (differs from this program's)",
                None => "",
            };
            listln!("  {:<22} {}{standing}", variant.name(), variant.idea());
            for (name, choices) in variant.tunables() {
                listln!("  {:<22}   {name}: {}", "", choices.join(" "));
            }
        }
    }
    Ok(())
}
