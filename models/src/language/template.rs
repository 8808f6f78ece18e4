//! A conversation → the prompt its model was trained on (chat templates in Jinja).
