//! One kernel of a variant at every number of rows, up to two of its largest tiles and a rest: what is wrong between
//! the edges of tiles shows, too.

use super::drawn::{Placed, largest_tile, where_small};
use super::{Made, Tested, Unmade, made, wrong};
use crate::kernel_bench::{Case, Expected, Operands, check, share};
use crate::{Device, RuntimeError};
use std::sync::Arc;
use wgoose_graph::Format;
use wgoose_kernels::Variant;

/// Rows beyond two tiles.
const REST: u32 = 8;

/// Tests the configuration nearest to the default with 1, 2, 3 and more rows, in the plainest format that it takes.
///
/// # Errors
/// The variant's text is wrong, or the device fails beyond one kernel.
pub fn test_rows(device: &Arc<Device>, op: &str, variant: &Variant) -> Result<Tested, RuntimeError> {
    let mut tested = Tested::default();
    let Some(format) = format_of(device, op, variant)? else { return Ok(tested) };
    let mut shared: Option<Operands> = None;
    for rows in 1..=2 * largest_tile(variant) + REST {
        let mut refusal = None;
        for placed in where_small(op, format, rows) {
            let Made { case, instance, kernel } = match made(device, op, variant, &placed, &variant.configs()) {
                Ok(made) => made,
                Err(Unmade::Refused(why)) => {
                    refusal = refusal.or(Some(why));
                    continue;
                }
                Err(Unmade::Broken(error)) => return Err(error),
            };
            let drawn = Case::random(&instance, case.numbers, case.seed);
            let operands = match &shared {
                Some(first) => first.beside(&drawn, 1)?,
                None => Operands::upload(device, &drawn, 1)?,
            };
            let bench = match operands.bench(&kernel) {
                Err(RuntimeError::Compile { kernel, why }) => {
                    tested.failure = Some((case, format!("{kernel}: {why}")));
                    return Ok(tested);
                }
                other => other?,
            };
            let deviation = check(&bench, &drawn, &Expected::of(&drawn))?;
            tested.cases += 1;
            tested.worst = tested.worst.max(share(deviation.worst, deviation.tolerance));
            if let Some(why) = wrong(&kernel, &deviation) {
                tested.failure = Some((case, why));
                return Ok(tested);
            }
            shared.get_or_insert(operands);
            refusal = None;
            break;
        }
        refusal.iter().for_each(|refusal| tested.skip(refusal));
    }
    Ok(tested)
}

/// The plainest format that a variant takes for many rows or for one.
fn format_of(device: &Device, op: &str, variant: &Variant) -> Result<Option<Format>, RuntimeError> {
    for format in Format::all() {
        let places: Vec<Placed> =
            [1, 2 * largest_tile(variant)].into_iter().flat_map(|n| where_small(op, format, n)).collect();
        for placed in places {
            match made(device, op, variant, &placed, &variant.configs()) {
                Ok(_) => return Ok(Some(format)),
                Err(Unmade::Refused(_)) => {}
                Err(Unmade::Broken(error)) => return Err(error),
            }
        }
    }
    Ok(None)
}
