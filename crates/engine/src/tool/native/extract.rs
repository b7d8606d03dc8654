//! Injected parameters, which are not sent by the model.

use std::any::type_name;
use std::ops::Deref;
use std::sync::Arc;

use crate::agent::nested::Tools;
use crate::call::Call;
use crate::call::context::Agent;
use crate::error::{Error, ErrorKind};
use crate::journal::event::Emitter;
use crate::value::name::CallId;
use crate::value::secret::Secret;

/// A parameter type of `#[tool]` functions that is extracted from the call's
/// context and is not part of the schema.
pub trait FromCall: Sized {
    /// Extracts the value for the parameter with this name.
    fn from_call(call: &Call, parameter: &str) -> Result<Self, Error>;
}

/// A context object, found by its type: the call's, else the agent's, else the
/// engine's.
#[derive(Debug)]
pub struct Inject<T>(pub Arc<T>);

impl<T> Clone for Inject<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> Deref for Inject<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Send + Sync + 'static> FromCall for Inject<T> {
    fn from_call(call: &Call, _parameter: &str) -> Result<Self, Error> {
        call.object().map(Self).ok_or_else(|| {
            Error::new(
                ErrorKind::Internal,
                format!("no context object of the type {} was given", type_name::<T>()),
            )
        })
    }
}

impl<T: Send + Sync + 'static> FromCall for Option<Inject<T>> {
    fn from_call(call: &Call, _parameter: &str) -> Result<Self, Error> {
        Ok(call.object().map(Inject))
    }
}

impl FromCall for Emitter {
    fn from_call(call: &Call, _parameter: &str) -> Result<Self, Error> {
        Ok(call.emitter())
    }
}

impl FromCall for Tools {
    fn from_call(call: &Call, _parameter: &str) -> Result<Self, Error> {
        Ok(call.tools())
    }
}

impl FromCall for CallId {
    fn from_call(call: &Call, _parameter: &str) -> Result<Self, Error> {
        Ok(call.id())
    }
}

impl FromCall for Arc<Agent> {
    fn from_call(call: &Call, _parameter: &str) -> Result<Self, Error> {
        call.agent().cloned().ok_or_else(|| {
            Error::new(ErrorKind::Internal, "the call was not made in the name of an agent")
        })
    }
}

impl FromCall for Option<Arc<Agent>> {
    fn from_call(call: &Call, _parameter: &str) -> Result<Self, Error> {
        Ok(call.agent().cloned())
    }
}

impl FromCall for Secret {
    fn from_call(call: &Call, parameter: &str) -> Result<Self, Error> {
        call.secret(parameter).cloned().ok_or_else(|| {
            Error::new(ErrorKind::CredentialInvalid, format!("the secret `{parameter}` is not set"))
        })
    }
}

impl FromCall for Option<Secret> {
    fn from_call(call: &Call, parameter: &str) -> Result<Self, Error> {
        Ok(call.secret(parameter).cloned())
    }
}
