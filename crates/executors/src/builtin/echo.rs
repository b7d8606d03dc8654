//! `echo`: returns its message unchanged.

use windlass::{Error, Output};

use super::arguments::Arguments;

pub(super) fn run(arguments: &Arguments<'_>) -> Result<Output, Error> {
    Ok(Output::text(arguments.text("message")?))
}
