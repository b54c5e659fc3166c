//! What a component can waste is bounded, and how its query ended is told as what it was.
