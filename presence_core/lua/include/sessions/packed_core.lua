-- The packed field 'c' of a session record: models/sessions.py has its table.
local CORE = '>I8I4I4c16c4c4'
local NO_LABEL, INLINE = '\0\0\0\0', '\255\255\255\255'
