//! Cryptographically secure random bytes and names.

use windlass::{Error, ErrorKind};
use zeroize::Zeroizing;

/// The signs of a random text: digits and letters, so that a double click
/// selects all of it.
const SIGNS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// The greatest multiple of 62 that a byte can hold: bytes from here on would
/// make the first signs more likely than the others.
const FAIR: u8 = 248;

/// Random bytes from the system.
pub(crate) fn bytes<const N: usize>() -> Result<Zeroizing<[u8; N]>, Error> {
    let mut bytes = Zeroizing::new([0; N]);
    getrandom::fill(bytes.as_mut_slice()).map_err(|error| {
        Error::new(ErrorKind::Internal, format!("the system has no random numbers: {error}"))
    })?;
    Ok(bytes)
}

/// A random number that is not zero.
pub(crate) fn number() -> Result<u64, Error> {
    bytes::<8>().map(|bytes| u64::from_le_bytes(*bytes).max(1))
}

/// A random text of so many digits and letters, nearly six bits each.
pub(crate) fn text(length: usize) -> Result<Zeroizing<String>, Error> {
    // All the room at once: a text that grows leaves copies of itself behind.
    let mut text = Zeroizing::new(String::with_capacity(length));
    while text.len() < length {
        let bytes = bytes::<64>()?;
        let fair = bytes.iter().filter(|byte| **byte < FAIR);
        let signs = fair.map(|byte| char::from(SIGNS[usize::from(byte % 62)]));
        let missing = length - text.len();
        text.extend(signs.take(missing));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_their_length_all_signs_and_differ() {
        for length in [0, 1, 43, 200] {
            assert_eq!(text(length).unwrap().len(), length);
        }
        let long = text(20_000).unwrap();
        assert!(SIGNS.iter().all(|sign| long.contains(char::from(*sign))));
        assert_ne!(*text(20).unwrap(), *text(20).unwrap());
        assert_ne!(*bytes::<32>().unwrap(), [0; 32]);
    }
}
