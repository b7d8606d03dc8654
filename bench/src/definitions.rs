//! placeholder
use crate::report::Figure;
pub(crate) fn run() -> anyhow::Result<Vec<Figure>> {
    Ok(vec![])
}
