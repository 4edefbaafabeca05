//! Arms that force a variant for its op.

use super::NamedDifference;
use crate::failure::{Failure, WrongUsage};
use std::path::PathBuf;
use std::sync::Arc;
use wgoose_kernels::{Catalogue, NoSuchVariant};
use wgoose_measure::experiment::Difference;
use wgoose_measure::seed::Seed;
use wgoose_plans::catalogue;

/// A difference for each variant, with the kernel files of the folder that has it, if one has.
pub(super) fn differences(variants: &[(String, String)], folders: &[PathBuf]) -> Result<Vec<NamedDifference>, Failure> {
    if variants.is_empty() {
        return Ok(Vec::new());
    }
    let of_folder = |folder: &PathBuf| Ok((folder.clone(), catalogue::with_folder(folder)?));
    let of_folders = folders.iter().map(of_folder).collect::<Result<Vec<_>, Failure>>()?;
    let of_variant = |(op, name): &(String, String)| {
        let op = NoSuchVariant::unless_op(op)?;
        let has = |(_, catalogue): &&(PathBuf, Arc<Catalogue>)| {
            catalogue.variant(op, name).is_some_and(|variant| {
                let path = format!("{}.wgsl", variant.path());
                catalogue.differing().iter().any(|file| file.path == path)
            })
        };
        let folder = of_folders.iter().find(has).map(|(folder, _)| folder.clone());
        if folder.is_none() {
            catalogue::embedded().named(op, name)?;
        }
        let kernels = vec![Seed::of_variant(op, name)];
        Ok((format!("variant {op}/{name}"), Difference { kernel_files: folder, kernels, ..Difference::default() }))
    };
    variants
        .iter()
        .map(of_variant)
        .collect::<Result<_, NoSuchVariant>>()
        .map_err(|why| WrongUsage(why.to_string()).into())
}
