//! Allow list of environment variables for a server's process: what every program needs,
//! and what `npx` and `uvx` need to download a package first. Nothing else is inherited;
//! keys and tokens must be declared by name.

use std::ffi::OsString;

/// Variables that are passed on, in exactly this case.
const NAMES: &[&str] = &[
    // For every program.
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LOGNAME",
    "PATH",
    "SHELL",
    "TERM",
    "TMPDIR",
    "TZ",
    "USER",
    // CA certificates.
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "UV_NATIVE_TLS",
    "UV_SYSTEM_CERTS",
    "DENO_CERT",
    // Locations of packages, interpreters and caches.
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_BIN_HOME",
    "XDG_RUNTIME_DIR",
    "UV_CACHE_DIR",
    "UV_TOOL_DIR",
    "UV_TOOL_BIN_DIR",
    "UV_PYTHON",
    "UV_PYTHON_INSTALL_DIR",
    "UV_PYTHON_PREFERENCE",
    "UV_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_INDEX",
    "UV_CONFIG_FILE",
    "UV_OFFLINE",
    "PIP_CACHE_DIR",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_CONFIG_FILE",
    "PIPX_HOME",
    "PIPX_BIN_DIR",
    "PYENV_ROOT",
    "NVM_DIR",
    "NVM_BIN",
    "FNM_DIR",
    "VOLTA_HOME",
    "ASDF_DIR",
    "ASDF_DATA_DIR",
    "MISE_DATA_DIR",
    "COREPACK_HOME",
    "PNPM_HOME",
    "BUN_INSTALL",
    "DENO_DIR",
    "CARGO_HOME",
    "GOPATH",
    "GOMODCACHE",
    "GOCACHE",
    "GOPROXY",
    "DOCKER_HOST",
    "DOCKER_CONFIG",
    "DOCKER_CERT_PATH",
    "DOCKER_TLS_VERIFY",
];
/// Variables that are passed on in lower and in upper case.
const EITHER: &[&str] = &[
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "npm_config_cache",
    "npm_config_cafile",
    "npm_config_https_proxy",
    "npm_config_noproxy",
    "npm_config_offline",
    "npm_config_prefer_offline",
    "npm_config_prefix",
    "npm_config_proxy",
    "npm_config_registry",
    "npm_config_userconfig",
];

/// The allowed variables that are set.
pub(super) fn inherited() -> impl Iterator<Item = (OsString, OsString)> {
    let is_wanted = |name: &str| {
        NAMES.contains(&name)
            || EITHER.contains(&name)
            || EITHER.iter().any(|own| own.to_ascii_uppercase() == name)
    };
    std::env::vars_os().filter(move |(name, _)| name.to_str().is_some_and(is_wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_passed_on_is_named_and_holds_no_key() {
        for name in NAMES.iter().chain(EITHER) {
            let name = name.to_ascii_lowercase();
            for secret in ["key", "token", "secret", "password", "auth"] {
                assert!(!name.contains(secret), "{name}");
            }
        }
        let path = inherited().find(|(name, _)| name == "PATH");
        assert!(path.is_some());
        assert!(inherited().all(|(name, _)| name != "CARGO_MANIFEST_DIR"));
    }
}
