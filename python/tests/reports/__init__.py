"""Small programs for facts that users of message passing libraries have reported.

Each public function takes `compile` (ours, or the identity) and asserts one fact.
"""
