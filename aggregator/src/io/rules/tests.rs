//! Files of every kind, and what a look at them finds.
