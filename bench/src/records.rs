//! placeholder
use crate::report::Figure;
pub(crate) fn burst() -> anyhow::Result<Vec<Figure>> {
    Ok(vec![])
}
pub(crate) fn sustained() -> anyhow::Result<Vec<Figure>> {
    Ok(vec![])
}
